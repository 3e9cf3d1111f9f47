"""Parametrisations of self-attention over raw tokens: factors, products, sparse, or steps.

A head depends only on two products: `O = P W_V` (output) and `C = W_Kᵀ W_Q` (comparison). A form holds the weights of a
whole stack and computes these products, each `(layers, heads, width, width)`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Factors(nn.Module):
    """Separate `P`, `W_V`, `W_K`, `W_Q`, as von Oswald et al. 2023 train them.

    The initialisation is theirs too: normal, truncated at two standard deviations, with variance
    `0.002 / layers / width`.
    """

    averaged = False

    def __init__(self, layers: int, heads: int, dims: int, outputs: int, depth: int) -> None:
        super().__init__()
        width = dims + outputs
        # Truncation reduces the standard deviation from 1 to 0.8796.
        std = (0.002 / depth / width) ** 0.5 / 0.87962566
        self.p, self.v, self.k, self.q = (
            nn.Parameter(
                nn.init.trunc_normal_(torch.empty(layers, heads, width, width), std=std, a=-2 * std, b=2 * std)
            )
            for _ in range(4)
        )

    def products(self) -> tuple[Tensor, Tensor]:
        return self.p @ self.v, self.k.mT @ self.q

    @torch.no_grad()
    def write(self, out: Tensor, compare: Tensor) -> None:
        """Sets the products. All factors with the same products are equivalent: here values and keys are the
        identity."""
        eye = torch.eye(out.shape[-1], dtype=out.dtype, device=out.device)
        for weight, value in ((self.p, out), (self.v, eye), (self.k, eye), (self.q, compare)):
            weight.copy_(value)


class Products(nn.Module):
    """The products themselves, `Z ← Z + (1/n) O Z M Zᵀ C Z`, M leaving the query out: Ahn et al. 2023.

    They train the sparse form; this form has no fixed entries and is initialised at scale 1e-2.
    """

    averaged = True
    std = 1e-2

    def __init__(self, layers: int, heads: int, dims: int, outputs: int, depth: int) -> None:
        super().__init__()
        width = dims + outputs
        self.out = nn.Parameter(self.std * torch.randn(layers, heads, width, width))
        self.compare = nn.Parameter(self.std * torch.randn(layers, heads, width, width))

    def products(self) -> tuple[Tensor, Tensor]:
        return self.out, self.compare

    @torch.no_grad()
    def write(self, out: Tensor, compare: Tensor) -> None:
        self.out.copy_(out)
        self.compare.copy_(compare)


class SparseForm(nn.Module):
    """`O = diag(B, I)`, `C = −diag(A, 0)`: the sparse weights of Ahn et al. 2023, Theorems 3 and 4.

    A layer is then a step of gradient descent preconditioned by `A`, while `B` transforms the inputs. The
    initialisation is theirs.
    """

    averaged = True
    std = 1e-4

    def __init__(self, layers: int, heads: int, dims: int, outputs: int, depth: int) -> None:
        super().__init__()
        self.outputs = outputs
        self.a = nn.Parameter(self.std * torch.randn(layers, heads, dims, dims))
        self.b = nn.Parameter(self.std * torch.randn(layers, heads, dims, dims))

    def products(self) -> tuple[Tensor, Tensor]:
        dims, width = self.a.shape[-1], self.a.shape[-1] + self.outputs
        labels = torch.eye(width, dtype=self.a.dtype, device=self.a.device)[:, dims:]
        rows = nn.functional.pad(self.b, (0, 0, 0, self.outputs))  # (layers, heads, width, dims)
        out = torch.cat([rows, labels.expand(*rows.shape[:-2], width, self.outputs)], -1)
        return out, -nn.functional.pad(self.a, (0, self.outputs, 0, self.outputs))

    @torch.no_grad()
    def write(self, out: Tensor, compare: Tensor) -> None:
        """Sets the products, rescaled so that labels are written with weight 1."""
        dims = self.a.shape[-1]
        scale = out[:, :, dims:, dims:].diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
        self.a.copy_(-compare[..., :dims, :dims] * scale)
        self.b.copy_(out[..., :dims, :dims] / torch.where(scale == 0, 1, scale))  # 0 for a head without effect


class Steps(nn.Module):
    """`O = −diag(γ I, η I)`, `C = diag(I, 0)`: GD++ with a step size `η` and a `γ` for each layer.

    Von Oswald et al. 2023 compare trained models with this. `η` is per example: their `η / N`.
    """

    averaged = False
    std = 1e-2

    def __init__(self, layers: int, heads: int, dims: int, outputs: int, depth: int) -> None:
        super().__init__()
        self.dims, self.outputs = dims, outputs
        self.eta = nn.Parameter(self.std * torch.randn(layers, heads))
        self.gamma = nn.Parameter(self.std * torch.randn(layers, heads))

    def products(self) -> tuple[Tensor, Tensor]:
        gamma, eta = (p.unsqueeze(-1).expand(-1, -1, n) for p, n in ((self.gamma, self.dims), (self.eta, self.outputs)))
        ones = torch.ones_like(gamma)
        compare = nn.functional.pad(torch.diag_embed(ones), (0, self.outputs, 0, self.outputs))
        return -torch.diag_embed(torch.cat([gamma, eta], -1)), compare

    @torch.no_grad()
    def write(self, out: Tensor, compare: Tensor) -> None:
        """Sets the step sizes to the means of the diagonals of the products."""
        diagonal = -out.diagonal(dim1=-2, dim2=-1)
        scale = compare.diagonal(dim1=-2, dim2=-1)[..., : self.dims].mean(-1)
        self.gamma.copy_(diagonal[..., : self.dims].mean(-1) * scale)
        self.eta.copy_(diagonal[..., self.dims :].mean(-1) * scale)


FORMS: dict[str, type[Factors | Products | SparseForm | Steps]] = {
    "factors": Factors,
    "products": Products,
    "sparse": SparseForm,
    "steps": Steps,
}
