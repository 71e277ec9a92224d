"""The page in a real browser (Debian's chromium): `make browser` installs it; without one these are skipped."""

import base64
import json
import shutil
from pathlib import Path

import pytest

webdriver = pytest.importorskip("selenium.webdriver")
By = pytest.importorskip("selenium.webdriver.common.by").By
Select = pytest.importorskip("selenium.webdriver.support.ui").Select

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no chromium here; make browser installs it")
SAMPLE = Path(__file__).parents[2] / "reports" / "sample.html"


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for word in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    ):  # fmt: skip
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


def emulate(browser, scheme):
    # without reduced motion the browser is still scrolling when the next click comes
    features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
    listed = [{"name": name, "value": value} for name, value in features.items()]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": listed})


@pytest.fixture(params=["small", "sample"])
def page(request, browser, tmp_path, small):
    """The hostile small page, and the sample page of the repository."""
    path = SAMPLE
    if request.param == "small":
        path = tmp_path / "i.html"
        small.write(path)
    elif not SAMPLE.exists():
        pytest.skip("no sample page in reports/ yet")
    emulate(browser, "light")
    browser.set_window_size(1200, 900)
    browser.get_log("performance")
    browser.get_log("browser")
    browser.get(path.as_uri())
    return browser


def test_no_errors_and_nothing_fetched(page):
    assert page.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith(("data:", "file:"))] == []


def test_every_entry_of_the_contents_leads_somewhere(page):
    for link in page.find_elements(By.CSS_SELECTOR, "nav a"):
        target = link.get_attribute("hash")[1:]
        assert page.find_element(By.ID, target).is_displayed()


def test_filter_and_count(page):
    rows = page.find_elements(By.CSS_SELECTOR, ".ledger tbody tr")
    verdict = rows[0].get_attribute("data-verdict")
    Select(page.find_element(By.CSS_SELECTOR, ".filter select[name=verdict]")).select_by_visible_text(verdict)
    shown = [row for row in rows if row.is_displayed()]
    assert shown
    assert {row.get_attribute("data-verdict") for row in shown} == {verdict}
    assert page.find_element(By.CSS_SELECTOR, ".filter output").text == f"{len(shown)} of {len(rows)}"


def test_sorting_by_verdict(page):
    button = page.find_element(By.CSS_SELECTOR, ".ledger th:nth-child(3) button")
    for down in (False, True):
        button.click()
        found = [cell.text for cell in page.find_elements(By.CSS_SELECTOR, ".ledger td.verdict")]
        assert found == sorted(found, reverse=down, key=by_word_and_tolerance)


def by_word_and_tolerance(verdict):
    """confirmed, confirmed ±5 %, confirmed ±20 %, refuted."""
    word, _, tolerance = verdict.partition(" ±")
    return word, float(tolerance.removesuffix(" %") or 0)


def test_downloads_are_what_they_say(page):
    links = page.find_elements(By.CSS_SELECTOR, "a[download]")
    assert links
    for link in links:
        content = base64.b64decode(link.get_attribute("href").partition("base64,")[2]).decode()
        if link.get_attribute("download").endswith(".json"):
            assert json.loads(content)["numbers"]
        else:
            assert len(content.splitlines()) > 1


def luminance(page, script):
    channels = page.execute_script(script + ".match(/[0-9.]+/g).slice(0, 3).map(Number)")
    return sum(channels) / 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_themes_keep_their_contrast(page, scheme):
    emulate(page, scheme)
    paper = luminance(page, "return getComputedStyle(document.body).backgroundColor")
    ink = luminance(page, "return getComputedStyle(document.body).color")
    label = luminance(page, "return getComputedStyle(document.querySelector('.picture svg text')).fill")
    assert (paper > 200) == (scheme == "light")
    assert abs(paper - ink) > 150
    assert abs(paper - label) > 150


@pytest.mark.parametrize("width", [360, 800, 1600])
def test_the_page_itself_never_scrolls_sideways(page, width):
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        assert page.execute_script("return document.documentElement.scrollWidth") <= width
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_switching_the_view_of_a_figure(page):
    views = page.find_elements(By.CSS_SELECTOR, ".view")
    if not views:
        pytest.skip("this page has no figure with two views")
    for view in views:
        view.find_element(By.XPATH, "following-sibling::label[1]").click()
        picture = view.find_element(By.XPATH, "following-sibling::div[1]")
        assert picture.is_displayed()


def test_readable_without_scripts(page):
    page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page.refresh()
        assert all(e.is_displayed() for e in page.find_elements(By.CSS_SELECTOR, ".ledger tbody tr"))
        assert not page.find_element(By.CSS_SELECTOR, ".filter").is_displayed()
        assert all(e.is_displayed() for e in page.find_elements(By.CSS_SELECTOR, "figcaption"))
    finally:
        page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_keyboard_reaches_the_contents_first(page):
    from selenium.webdriver.common.keys import Keys

    body = page.find_element(By.TAG_NAME, "body")
    body.send_keys(Keys.TAB)
    assert page.switch_to.active_element.get_attribute("class") == "skip"
    page.switch_to.active_element.send_keys(Keys.TAB)
    assert page.switch_to.active_element.get_attribute("hash") == "#answer"


def test_prints_to_a_pdf(page):
    printed = page.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.69})
    assert base64.b64decode(printed["data"]).startswith(b"%PDF")
