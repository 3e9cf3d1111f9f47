"""Every screen in a real browser: opened, used, its numbers compared with those of the library."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from serving import Server

import inweights as iw
from inweights.models import load_tabpfn, step_alignment

HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script> is my name.'


def done(page: Any, screen: str) -> None:
    page.locator(f"#{screen}-status").filter(has_text="done").wait_for()


def value(page: Any, id: str) -> float:
    return float(page.locator(f"#{id}").get_attribute("data-value"))


def test_prompt_to_weights(open_page: Any, server: Server) -> None:
    page = open_page()
    page.fill("#prompt-context", "My name is Bob. I live in Rome. ")
    page.fill("#prompt-query", "Who")
    page.fill("#prompt-new", "4")
    page.select_option("#prompt-dtype", "float64")
    page.click("text=Turn into weights")
    done(page, "prompt")
    model = iw.load(server.model, dtype="float64")
    prompt = iw.Prompt(model, context="My name is Bob. I live in Rome. ", query="Who")
    proof, texts = iw.verify(prompt, iw.patch(prompt)), iw.generate(prompt, 4)
    assert value(page, "proof-error") < 1e-9
    assert value(page, "proof-control") == pytest.approx(proof.bare_max_abs_logit_error, rel=1e-9)
    assert page.inner_text("#prompt-proof .verdict") == proof.verdict == "PASS"
    for who in ("prompted", "bare", "patched"):
        assert page.text_content(f"#text-{who}") == model.tokenizer.decode(getattr(texts, who))
    # Through the map to a layer, by keyboard alone.
    page.focus(".heat-scroll")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    norm = float(iw.trace(prompt).norms[1, 0])
    noted = page.inner_text(".heat-note")
    assert "layer 1, token 1" in noted
    assert float(noted.rpartition(": ")[2]) == pytest.approx(norm, rel=5e-3)
    page.keyboard.press("Enter")
    page.wait_for_selector("#layer-norm")
    bar = page.locator("#prompt-layer svg title").filter(has_text=re.compile(": ")).nth(1).text_content()
    assert float(bar.rpartition(": ")[2]) == pytest.approx(float(step_alignment(prompt, 1)[0, 1]), abs=6e-3)
    update = iw.patch(prompt).blocks[1].at(prompt.asked - 1).changes(model.model).updates[0]
    assert value(page, "layer-norm") == pytest.approx(float(update.frobenius()), rel=1e-6)
    # A part switched off: the weights of the other part alone.
    before = value(page, "proof-control")
    page.uncheck("#prompt-parts li:nth-child(2) input")
    page.locator("#prompt-match").filter(has_text="Before this change").wait_for()
    alone = iw.Prompt(model, context="My name is Bob. ", query="Who")
    assert value(page, "proof-control") == pytest.approx(
        iw.verify(alone, iw.patch(alone)).bare_max_abs_logit_error, rel=1e-9
    )
    assert value(page, "proof-control") != before
    # On again, and moved by dragging: another order, other weights.
    page.check("#prompt-parts li:nth-child(2) input")
    done(page, "prompt")
    page.locator("#prompt-parts li:nth-child(2) .part").drag_to(page.locator("#prompt-parts li:nth-child(1)"))
    assert page.inner_text("#prompt-parts li:nth-child(1) span").startswith("I live")
    done(page, "prompt")
    # The strength, by keyboard: without any the patched model is the bare one.
    assert page.text_content("#text-patched") == page.text_content("#text-prompted")
    page.focus("#prompt-strength")
    page.keyboard.press("Home")
    page.locator("#prompt-match").filter(has_text="at strength 0").wait_for()
    assert page.text_content("#text-patched") == page.text_content("#text-bare") != page.text_content("#text-prompted")
    # The value of a cell beside the pointer, and away with it.
    page.hover(".heat-scroll canvas", position={"x": 60, "y": 30})
    assert page.inner_text(".heat-tip") == page.inner_text(".heat-note") != ""
    page.hover("h1")
    assert not page.locator(".heat-tip").is_visible()


def test_text_of_users_and_models_is_never_markup(open_page: Any) -> None:
    page = open_page()
    page.fill("#prompt-context", HOSTILE)
    assert page.inner_text("#prompt-parts li:nth-child(1) span").startswith("<img")
    assert page.locator("main img, main script").count() == 0
    assert page.title().startswith("Prompt")


def test_fold_chat_and_download(open_page: Any, server: Server, tmp_path: Path) -> None:
    page = open_page("fold")
    document = tmp_path / "shop.md"
    document.write_text("The shop opens at 9:30. <b>Ada</b> owns it.")
    page.set_input_files("#fold-file", document)
    page.locator("#fold-status").filter(has_text="characters read").wait_for()
    assert page.input_value("#fold-context") == document.read_text()
    page.select_option("#fold-method", "vector")
    page.fill("#fold-calibration", "8")
    page.click("#fold-own summary")
    page.fill("#fold-questions", "When does it open?")
    page.click("#fold-form .primary")
    page.locator("#fold-status").filter(has_text="“When does it open?” has no answer").wait_for()
    page.fill("#fold-questions", "When does it open? | 9:30\n\nWho | what owns it?|Ada ")
    page.click("#fold-form .primary")
    page.wait_for_selector("#fold-download")
    id = page.inner_text("#fold-view-title").removeprefix("Fold ")
    result = server.ask(f"/api/jobs/{id}/result").json
    assert page.inner_text("#fold-report .verdict") == result["verdict"]
    fidelity = result["fidelity"]
    studied = [fidelity["studied"]] if fidelity["studied"] else []
    measured = [s["recovered"]["value"] for s in [*fidelity["sets"], *studied, *fidelity["turns"]]]
    cells = page.locator("#fold-report tr td:nth-child(2)").all_inner_texts()[-len(measured) :]
    assert [float(text.split()[0]) for text in cells] == pytest.approx(measured, rel=1e-2, abs=1e-3)
    assert len(fidelity["turns"]) == 3
    each = {e["question"]: e["value"] for e in result["fidelity"]["recall"]["each"]}
    assert each == {"When does it open?": "9:30", "Who | what owns it?": "Ada"}
    facts = page.locator("#fold-facts tbody tr").all()
    assert {row.locator("th").inner_text(): row.locator("td").first.inner_text() for row in facts} == each
    assert page.locator("#fold-pieces summary").first.inner_text().startswith("The shop opens at 9:30.")
    with page.expect_download() as download:
        page.click("#fold-download")
    assert download.value.suggested_filename.endswith(".zip")
    for turn in (1, 2):
        page.fill("#chat-query", "When?")
        page.click("#chat-form .primary")
        done(page, "chat")
        assert page.locator("#chat-folded p").count() == 2 * turn


def test_questions_appear_while_a_fold_goes_on_and_one_tab_alone_waits_for_news(open_page: Any, server: Server) -> None:
    """A browser opens six connections to a server: were every tab to hold one until there is news, the seventh tab
    would stay empty. The worker is paused meanwhile: a fold of a tiny model could be over before the last tab opens."""
    page = open_page("fold")
    held: set[Any] = set()
    most = [0]

    def sent(request: Any) -> None:
        if "wait=8" in request.url:
            held.add(request)
            most[0] = max(most[0], len(held))

    page.context.on("request", sent)
    page.context.on("requestfinished", lambda request: held.discard(request))
    page.context.on("requestfailed", lambda request: held.discard(request))
    page.fill("#fold-context", "The Orla costs £45. The Fenn costs £62. The Nar costs £17 and weighs 8 tons.")
    page.select_option("#fold-method", "match")
    with server.paused() as until:
        page.click("#fold-form .primary")
        title = page.locator("#fold-view-title").filter(has_text=re.compile(r"Fold \d")).inner_text()
        job = f"/api/jobs/{title.removeprefix('Fold ')}"
        until(lambda: any(n["what"] == "kept" for n in server.ask(job).json["news"]))
        assert server.ask(job).json["state"] == "running"
        page.wait_for_selector("#fold-pieces li")
        assert page.locator("#fold-download").count() == 0
        assert page.locator(".stages li").first.inner_text().startswith("✓ loading the model")
        assert "fitting the adapter, fitting the facts, measuring on" in page.inner_text("#fold-next")
        assert re.fullmatch(r"3 pieces, \d+ questions about them.*", page.inner_text("#fold-pieces h3"))
        for _ in range(7):
            tab = page.context.new_page()
            tab.goto(page.url)
            tab.wait_for_selector("html[data-ready=yes]")
            tab.locator("#fold-list button").first.click()
            tab.locator("#fold-progress").filter(has_text=re.compile(r"\w")).wait_for()
            assert tab.inner_text("#fold-view-title") == title
        assert most[0] == 1
    page.click("text=Cancel this fold")
    page.locator("#fold-progress").filter(has_text="cancelled").wait_for()


def test_a_killed_server_is_reported_and_its_fold_goes_on(open_page: Any, folder: str, tmp_path: Path) -> None:
    own = Server(folder, tmp_path)
    page = open_page("fold", at=own)
    with own.paused() as until:
        page.click("#fold-form .primary")
        page.locator("#fold-progress").filter(has_text=re.compile("Waiting|starting|loading")).wait_for()
        until(lambda: own.ask("/api/state").json["jobs"][0]["progress"].get("stage") in ("queries", "answers"))
        own.kill()
    page.locator("#banner").filter(has_text="does not answer").wait_for()
    own.start()
    page.wait_for_selector("#fold-resumed, #fold-download")
    page.locator("#banner").wait_for(state="hidden")
    page.wait_for_selector("#fold-download")
    assert "since it was resumed" in page.inner_text("#fold-report")
    own.stop()


def test_trajectory(open_page: Any, server: Server) -> None:
    page = open_page("trajectory")
    page.fill("#trajectory-context", "My name is Bob. ")
    page.fill("#trajectory-query", "I am")
    page.fill("#trajectory-examples", "8")
    page.click("#trajectory-form .primary")
    done(page, "trajectory")
    prompt = iw.Prompt(iw.load(server.model, dtype="float64"), context="My name is Bob. ", query="I am")
    assert value(page, "trajectory-mean") == pytest.approx(float(iw.trace(prompt).totals[:, -1].mean()), rel=1e-5)
    assert "8 of 8 examples" in page.inner_text("#trajectory-at-value")
    page.click("#trajectory-play")
    page.locator("#trajectory-play").filter(has_text="Pause").wait_for()
    page.locator("#trajectory-at-value").filter(has_text="16 of 16 tokens").wait_for()


def test_ledger_and_a_claim_run_live(open_page: Any) -> None:
    page = open_page("ledger")
    page.wait_for_selector("#ledger-table tbody tr")
    entries = {e.id: e for e in iw.claims()}
    assert page.locator("#ledger-table tbody tr").count() >= len(entries)
    page.fill("#ledger-search", "dherin-theorem")
    assert page.locator("#ledger-table tbody tr").count() == 1
    page.click("#ledger-table button")
    error = entries["dherin-theorem"].quantities["error"].value.value
    assert float(page.inner_text("#ledger-detail tbody td:nth-child(2)")) == pytest.approx(error, rel=0.05)
    page.click("#ledger-run")
    page.locator("#ledger-live").filter(has_text="recorded: PASS").wait_for()
    assert page.inner_text("#ledger-live .verdict >> nth=0") == "PASS"


def test_rows_to_weights(open_page: Any) -> None:
    load_tabpfn()  # fetched once, so that the page need not wait for it
    page = open_page("rows")
    page.fill("#rows-rows", "12")
    page.fill("#rows-grid", "4")
    page.locator("#rows-list button").nth(0).click()
    assert page.inner_text("#rows-kept-value") == "9"
    page.click("#rows-form .primary")
    done(page, "rows")
    assert value(page, "rows-error") < 1e-9
    assert page.inner_text("#rows-proof .verdict") == "PASS"
    assert "same class at 16 of 16" in page.inner_text("#rows-patched")


def test_a_large_map_scrolls_smoothly_and_the_page_paints_within_a_second(open_page: Any) -> None:
    """500 tokens × 30 layers: the median of drawing one frame fits into 60 frames a second. Of several visits the
    quickest counts: other work on the machine can only make them slower."""
    page = open_page(viewport={"width": 1280, "height": 900})
    paints = []
    for _ in range(20):
        page.reload()
        page.wait_for_selector("html[data-ready=yes]")
        page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length > 0")
        paints.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        if paints[-1] < 1000:
            break
    assert min(paints) < 1000
    took = page.evaluate("""async () => {
      const { Heat } = await import('/static/heat.js');
      const home = document.querySelector('#prompt-heat');
      const heat = new Heat(home, () => {});
      const tokens = Array.from({ length: 500 }, (_, i) => 'token' + i);
      heat.set(tokens, Array.from({ length: 30 }, (_, l) => tokens.map((_, t) => 1 + ((l * 31 + t * 17) % 97))));
      const times = [];
      for (let x = 0; x < 40; x++) {
        heat.scroller.scrollLeft = x * 200;
        const start = performance.now();
        heat.draw();
        times.push(performance.now() - start);
      }
      return times.sort((a, b) => a - b)[20];
    }""")
    assert took < 16


def test_cancel_and_theme_by_hand(open_page: Any, server: Server) -> None:
    page = open_page()
    before = page.evaluate("document.documentElement.dataset.theme")
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") != before
    page.reload()
    page.wait_for_selector("html[data-ready=yes]")
    assert page.evaluate("document.documentElement.dataset.theme") != before
    with server.paused():  # or the work could be done before it is cancelled
        page.click("text=Turn into weights")
        page.click("#prompt-cancel")
    page.locator("#prompt-status").filter(has_text="cancelled").wait_for()


def test_a_click_before_a_screen_is_ready_is_not_lost(open_page: Any, server: Server) -> None:
    """The script of a screen comes late: until then the screen takes no input, and the browser submits no form."""
    page, late = open_page(), []
    page.route("**/fold.js", lambda route: late.append(route))
    page.evaluate("location.hash = 'fold'")
    page.wait_for_selector("#screen-fold:not([hidden])")
    before = page.url
    page.evaluate("document.querySelector('#fold-form .primary').focus()")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.tagName") != "BUTTON"
    assert page.url == before
    while not late:
        page.wait_for_timeout(20)
    late[0].continue_()
    page.wait_for_selector("#screen-fold:not([inert])")
    page.fill("#fold-context", " ")
    page.evaluate("document.querySelector('#fold-form .primary').focus()")
    assert page.evaluate("document.activeElement.tagName") == "BUTTON"
