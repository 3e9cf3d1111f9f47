"""Why can GPT learn in-context? (Dai et al. 2023): in-context learning as implicit finetuning."""

from __future__ import annotations

from dataclasses import replace

from inweights.compare import Descent, Lesson, aligned, descend, implicit_changes, random_like, similarity, way
from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._demonstrated import NEEDS, given, mean, read_in_context, stored
from inweights.papers._papers import DAI

N = 4


@claim("dai-outputs", DAI, "Section 5.2: SimAOU", cost=(18, 46), needs=NEEDS)
def outputs(trial: Trial) -> Measurement:
    """In-context learning changes the outputs of attention in the direction in which finetuning changes them.

    Measured: SimAOU, the mean over layers of the cosine of the two changes at the last token, for each query, nothing
    normalised before.

    Control: finetuning on the demonstrations with each other's labels.

    Settings: SmolLM2-135M; past tense, plurals and, in full, SST-2; 4 demonstrations; full batch on all weights, rate
    1e-4, 3 epochs (full: 10); 4 queries (full: 16). The paper reports 0.1 to 0.2 with normalised outputs, far above
    random updates.

    Precondition: accuracy is at least 0.2 higher with demonstrations than without.
    """
    model, shown = given(trial, N, trial.size(12, 50))
    read_in_context(trial, model, shown, trial.size(6, 10))
    wrong = shown.relabelled(trial.generator())
    epochs, queries = trial.size(3, 10), trial.size(4, 16)

    def measure() -> dict[str, list[float]]:
        results = {}
        for name, some in (("own", shown), ("wrong", wrong)):
            taught = replace(shown, answered=some.answered)
            (point,) = descend(model, taught, way("gd"), 1e-4, epochs=epochs, every=epochs)
            results[name] = similarity(model, shown, list(range(N)), point.descent.forward, queries)["aou"]
        return results

    both = stored("dai-outputs", trial, measure)
    return Measurement({"similarity": (both["own"], both["wrong"])})


@claim("dai-weights", DAI, "Section 3: meta-gradients and gradients", cost=(33, 75), needs=NEEDS)
def weights(trial: Trial) -> Measurement:
    """The update of weights that in-context learning makes implicitly is like that of gradient descent.

    Measured: the cosine of the exact implicit update of the theorem and of the first step of gradient descent on the
    same demonstrations, the mean over all matrices that read an MLP's input, for each query. Whether these are alike is
    asked in this literature, and nowhere answered; the paper derives its likeness from linear attention.

    Control: a random update of the same norms in place of the gradient.

    Settings: SmolLM2-135M; past tense, plurals and, in full, SST-2; 4 demonstrations; float32; 2 queries (full: 8).
    Also reported: the mean cosine of the principal angles between the four leading directions that each update reads,
    beside that of chance.

    Precondition: accuracy is at least 0.2 higher with demonstrations than without.
    """
    model, shown = given(trial, N, trial.size(12, 50))
    read_in_context(trial, model, shown, trial.size(6, 10))
    descent = Descent(model, way("mlp"), 1.0)
    descent.step(Lesson.of(shown, range(N), model.device))
    gradient = descent.changes()
    chance = random_like(gradient, trial.seed)
    results = [implicit_changes(model, shown, list(range(N)), q) for q in range(trial.size(2, 8))]
    own, random = ([aligned(implicit, other) for implicit in results] for other in (gradient, chance))
    layers = [mean([each["cosine"][k] for each in own]) for k in range(len(own[0]["cosine"]))]
    plot = Plot(
        "Implicit update and gradient", "matrix", "cosine", list(range(len(layers))),
        {"gradient": layers, "chance": [mean([e["cosine"][k] for e in random]) for k in range(len(layers))]},
    )  # fmt: skip
    return Measurement(
        {"cosine": ([mean(e["cosine"]) for e in own], [mean(e["cosine"]) for e in random])},
        plot,
        {
            "principal angles": mean([mean(e["angles"]) for e in own]),
            "principal angles, chance": mean([mean(e["angles"]) for e in random]),
        },
    )
