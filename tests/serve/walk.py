"""A walk through the pages of `ruge serve` in a real browser, by keyboard, with screenshots.

Run by hand, with Python, Debian's chromium and playwright (`pip install playwright`; no browser is downloaded):

    ruge serve runs/demo --reviews /tmp/walk.db &
    python tests/serve/walk.py --shots /tmp/shots [--axe axe.min.js] [http://127.0.0.1:7997]

With a fresh file of reviews: the walk decides 20 facts and compares the export with what it decided. It fails at the first step
that does not do what a person would expect, at any message on the console, and at any request to another host. `--axe` runs axe-core
(`npm pack axe-core`) on every page as well. `--assets DIR` takes style and scripts from a folder instead of the server, to try changes.
"""

import argparse
import pathlib
import shutil
import sys
import urllib.parse

from playwright.sync_api import expect, sync_playwright

PAGES = {
    "home": "./",
    "search": "search?q=brusels",
    "entity": "entity?name=Belgium",
    "fact": "fact?head=Brussels&relation=located_in&tail=Flanders",
    "known": "fact?head=Brussels&relation=capital_of&tail=Belgium",
    "ask": "ask?head=Brussels&relation=located_in&new=true",
    "relations": "relations",
    "relation": "relation?name=located_in",
    "rules": "rules?min_confidence=0.5",
    "rule": "rule?id=0",
    "review": "review",
    "model": "model",
    "docs": "docs",
    "missing": "entity?name=Brusels",
}


class Walk:
    def __init__(self, browser, base, shots, assets, axe):
        self.browser, self.base, self.shots, self.assets, self.axe = browser, base, shots, assets, axe
        self.wrong = []
        # While something fails on purpose.
        self.silent = False

    def page(self, width, scheme, script=True):
        context = self.browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=script
        )
        page = context.new_page()
        page.on("console", lambda message: self.heard(page, message))
        page.on("pageerror", lambda error: self.wrong.append(f"{page.url}: {error}"))
        page.on("request", self.asked)
        page.on("dialog", lambda dialog: (self.wrong.append(f"{page.url}: a dialog"), dialog.dismiss()))
        if self.assets:
            page.route("**/assets/*", self.from_folder)
        return page

    def heard(self, page, message):
        # The browser itself says that an unknown name answered 422.
        if "422" not in message.text and not self.silent:
            self.wrong.append(f"{page.url}: console: {message.text}")

    def asked(self, request):
        if not request.url.startswith(self.base):
            self.wrong.append(f"a request to {request.url}")

    def from_folder(self, route):
        name = pathlib.Path(urllib.parse.urlparse(route.request.url).path).name
        path = pathlib.Path(self.assets) / name
        kinds = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
        route.fulfill(body=path.read_bytes(), content_type=kinds[path.suffix])

    def shoot(self):
        for width in (400, 1280):
            for scheme in ("light", "dark"):
                page = self.page(width, scheme)
                for name, address in PAGES.items():
                    page.goto(self.base + address)
                    page.screenshot(path=f"{self.shots}/{name}-{width}-{scheme}.png", full_page=True)
                    wide = page.evaluate("document.documentElement.scrollWidth")
                    if wide > width:
                        self.wrong.append(f"{name} at {width}: {wide} pixels wide")
                    if self.axe:
                        self.look(page, name, width, scheme)
                page.context.close()

    def look(self, page, name, width, scheme):
        # A policy without inline scripts keeps a tag from being added; evaluation by the tools of the browser is allowed.
        page.evaluate(self.axe)
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        for violation in found["violations"]:
            line = f"{name} {width} {scheme}: {violation['impact']}: {violation['id']}: {violation['nodes'][0]['html'][:160]}"
            if violation["impact"] in ("serious", "critical"):
                self.wrong.append("axe: " + line)
            else:
                print("axe:", line)

    def keyboard(self):
        """The same walk on a wide screen and on a narrow, dark one."""
        self.by_keys(1280, "light", 20)
        self.by_keys(400, "dark", 5)

    def by_keys(self, width, scheme, count):
        """Search with a typo, an entity, a reason, a rule, a counterexample; then review by keys alone, and export."""
        page = self.page(width, scheme)
        page.goto(self.base + "model")
        page.keyboard.press("/")
        with page.expect_response(lambda answer: "q=brusels&" in answer.url):
            page.keyboard.type("brusels")
        page.get_by_role("option").first.wait_for()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.wait_for_url("**/entity?name=Brussels")
        assert page.get_by_role("heading", name="Brussels", level=1).is_visible()
        page.keyboard.press("g")
        assert page.evaluate("document.activeElement.closest('svg') !== null"), "g leads into the drawing"
        page.keyboard.press("n")
        page.keyboard.press("ArrowDown")
        with page.expect_response("**/entity?name=*"):
            page.keyboard.press("e")
        page.locator(".expanded h3").wait_for()
        assert page.evaluate("document.activeElement.closest('.expanded') !== null"), "e leads into the new drawing"
        page.get_by_role("button", name="Larger").first.click()
        assert page.locator(".graph.moved").count() == 1
        page.get_by_role("button", name="Whole drawing").first.click()
        assert page.locator(".graph.moved").count() == 0
        page.keyboard.press("g")
        page.keyboard.press("n")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.wait_for_url(lambda url: "entity?name=" in url and not url.endswith("Brussels"))
        page.go_back()
        rule = page.get_by_role("link", name="this rule").first
        rule.focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/rule?id=*")
        for heading in ("Examples", "Counterexamples", "Where nobody knows"):
            assert page.get_by_role("heading", name=heading, exact=True).is_visible(), heading
        self.counterexample(page)
        exported = self.exported(page)
        page.goto(self.base + "review")
        figures = [int(text.replace(",", "")) for text in page.locator("#progress b").all_inner_texts()]
        decided = []
        for at in range(count):
            card = page.locator(".current")
            address = card.locator("form.decide").get_attribute("action")
            names = urllib.parse.parse_qs(urllib.parse.urlparse(address).query)
            key = "r" if at % 4 == 3 else "a"
            with page.expect_response("**/review*"):
                page.keyboard.press(key)
            figures["ar".index(key)] += 1
            expect(page.locator("#progress b").nth(0)).to_have_text(str(figures[0]))
            expect(page.locator("#progress b").nth(1)).to_have_text(str(figures[1]))
            decided.append("\t".join((names["head"][0], names["relation"][0], names["tail"][0], "false" if key == "r" else "true")))
        for key, text in (("a", figures[0] + 1), ("u", figures[0])):
            with page.expect_response("**/api/v1/suggestions/decision"):
                page.keyboard.press(key)
            expect(page.locator("#progress b").first).to_have_text(str(text))
        now = self.exported(page)
        assert sorted(now) == sorted(exported + decided), (now, exported, decided)
        self.broken(page)
        page.goto(self.base + "review")
        page.screenshot(path=f"{self.shots}/reviewed-{width}-{scheme}.png", full_page=True)
        page.context.close()
        print(f"keyboard at {width} pixels, {scheme}: {count} facts decided, one undone; the export is what was decided")

    def exported(self, page):
        page.goto(self.base + "review")
        with page.expect_download() as download:
            page.get_by_role("link", name="decisions.tsv").click()
        return pathlib.Path(download.value.path()).read_text().splitlines()

    def counterexample(self, page):
        """A rule that has one: its fact, decided and undone by a key."""
        for number in range(40):
            page.goto(f"{self.base}rule?id={number}")
            link = page.locator("section[aria-labelledby=counterexample] a.note").first
            if link.count():
                break
        link.focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/fact?*")
        assert page.get_by_role("heading", name="What speaks against it").is_visible()
        with page.expect_response("**/api/v1/suggestions/decision"):
            page.keyboard.press("r")
        page.locator(".decided.rejected").wait_for()
        with page.expect_response("**/api/v1/suggestions/decision"):
            page.keyboard.press("u")
        page.get_by_role("button", name="Accept").wait_for()

    def broken(self, page):
        """What fails by a key is said where people look, and can be tried again."""
        page.route("**/api/v1/suggestions/decision", lambda route: route.fulfill(status=503, body="busy"))
        self.silent = True
        page.keyboard.press("a")
        page.locator(".current .warn").wait_for()
        page.unroute("**/api/v1/suggestions/decision")
        self.silent = False

    def without_script(self):
        page = self.page(1280, "light", script=False)
        page.goto(self.base)
        page.locator("#big").fill("brusels")
        page.locator("form.big button").click()
        page.get_by_role("link", name="Brussels", exact=True).click()
        page.get_by_role("link", name="Details").first.click()
        page.get_by_role("button", name="Accept").click()
        assert page.get_by_text("Accepted").is_visible()
        page.get_by_role("button", name="Undo").click()
        assert page.get_by_role("button", name="Accept").is_visible()
        page.goto(self.base + "review")
        page.locator("details.who summary").click()
        page.locator("input[name=reviewer]").fill("Ada Lovelace")
        page.get_by_role("button", name="Keep").click()
        page.get_by_role("button", name="Reject").first.click()
        page.goto(self.base + "review?state=rejected")
        assert page.get_by_text("by Ada Lovelace").first.is_visible()
        page.get_by_role("button", name="Undo").first.click()
        page.goto(self.base + "ask")
        page.locator("input[name=head]").fill("Brussels")
        page.locator("input[name=relation]").fill("located_in")
        page.get_by_role("button", name="Ask").click()
        assert page.get_by_role("link", name="Why?").first.is_visible()
        page.context.close()
        print("without script: search, entity, decide, undo, name, ask")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("base", nargs="?", default="http://127.0.0.1:7997/")
    parser.add_argument("--shots", default="shots")
    parser.add_argument("--assets")
    parser.add_argument("--axe")
    parser.add_argument("--only", choices=["shoot", "keyboard", "without_script"])
    args = parser.parse_intermixed_args()
    pathlib.Path(args.shots).mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("SKIPPED: there is no chromium here")
    axe = pathlib.Path(args.axe).read_text() if args.axe else None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        walk = Walk(browser, args.base.rstrip("/") + "/", args.shots, args.assets, axe)
        for step in ("shoot", "without_script", "keyboard"):
            if args.only in (None, step):
                getattr(walk, step)()
        browser.close()
    for line in sorted(set(walk.wrong)):
        print("wrong:", line)
    sys.exit(1 if walk.wrong else 0)


if __name__ == "__main__":
    main()
