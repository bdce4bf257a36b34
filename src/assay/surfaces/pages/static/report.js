// The pages of one file: the run, the list of its records and one record, by what stands after # in the address.
// Texts of unknown origin are packed in the file. What is unpacked is read by an inert parser, and only elements and attributes that our
// templates have are created from it, so that a text stays a text with any content.
const PAGE = 50, PART = 50;
const TAGS = new Set("a article caption code dd details div dl dt h1 h2 h3 li mark ol p pre section span strong summary table tbody td th thead time tr ul wbr".split(" "));
const ATTRIBUTES = "aria-current aria-label aria-labelledby class data-label data-when datetime dir id open role scope tabindex title".split(" ");
const $ = (id) => document.getElementById(id);
const views = { run: $("view-run"), records: $("view-records"), record: $("view-record") };
const ordinary = document.title;

const unpacked = async (id) => {
  const letters = atob($(id).textContent);
  const bytes = new Uint8Array(letters.length);
  for (let place = 0; place < letters.length; place++) bytes[place] = letters.charCodeAt(place);
  return new Response(new Response(bytes).body.pipeThrough(new DecompressionStream("gzip"))).json();
};
const once = (make) => {
  const kept = new Map();
  return (key) => {
    if (!kept.has(key)) {
      if (kept.size > 20) kept.delete(kept.keys().next().value);
      kept.set(key, make(key));
    }
    return kept.get(key);
  };
};
const part = once((number) => unpacked(`part-${number}`));
const list = once(() => unpacked("list"));

const made = (tag, text, attributes = {}) => {
  const element = document.createElement(tag);
  element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};
const copied = (node) => {
  if (node.nodeType === Node.TEXT_NODE) return document.createTextNode(node.data);
  if (node.nodeType !== Node.ELEMENT_NODE) return "";
  const tag = node.localName;
  if (!TAGS.has(tag)) return document.createTextNode(node.textContent);
  const element = document.createElement(tag);
  for (const name of ATTRIBUTES) if (node.hasAttribute(name)) element.setAttribute(name, node.getAttribute(name));
  const address = node.getAttribute("href") ?? "";
  if (address.startsWith("#")) element.setAttribute("href", address);
  element.append(...[...node.childNodes].map(copied));
  return element;
};
const read = (html, within) => {
  const inert = new DOMParser().parseFromString(within ? `<table><tbody>${html}</tbody></table>` : html, "text/html");
  return [...(within ? inert.querySelector("tbody") : inert.body).childNodes].map(copied);
};

// Which records a query asks for, in its order, as a server would answer.
// Texts are case-folded: as small letters of their capitals, but for a dotless i, and with one small sigma.
const folded = (text) => text.split("ı").map((part) => part.toUpperCase().toLowerCase()).join("ı").replaceAll("ς", "σ");
const words = (text) => folded(text).split(/\s+/).filter(Boolean).join(" ").normalize("NFC");
const limit = (query, name) => (query.get(name) ? Number(query.get(name)) : null);
const found = once(async (asked) => {
  const { rows, texts, orders, sets } = await list();
  const query = new URLSearchParams(asked);
  const wanted = ["passed", "status", "tag", "slice", "criterion", "code", "flips"].filter((name) => query.get(name)).map((name) => [name, query.get(name)]);
  if (query.get("met")) wanted.push(query.get("criterion") ? [`met ${query.get("met")}`, query.get("criterion")] : ["met", query.get("met")]);
  const members = wanted.map(([name, value]) => new Set(Object.hasOwn(sets[name] ?? {}, value) ? sets[name][value] : []));
  const text = words(query.get("text") ?? ""), from = limit(query, "min_score"), to = limit(query, "max_score");
  const fits = (number) => members.every((set) => set.has(number))
    && (from === null || (rows[number].score !== null && rows[number].score >= from))
    && (to === null || (rows[number].score !== null && rows[number].score <= to))
    && (!text || texts[number].includes(text));
  const order = Object.hasOwn(orders, query.get("sort") ?? "") ? orders[query.get("sort")] : orders.order;
  return order.filter(fits);
});

const plain = (query) => {
  const kept = new URLSearchParams([...query].filter(([name, value]) => value && name !== "page" && !(name === "sort" && value === "order")));
  return kept.toString();
};
const address = (name, asked, page = 1) => {
  const query = new URLSearchParams(asked);
  if (page > 1) query.set("page", page);
  return `#${name}${query.size ? `?${query}` : ""}`;
};
const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
const summary = (total, every, start, shown, page, pages) => {
  const which = total === every ? count(every, "record") : `${total.toLocaleString("en")} of ${count(every, "record")}`;
  if (shown === total) return which;
  return `${which} · ${(start + 1).toLocaleString("en")} to ${(start + shown).toLocaleString("en")} on page ${page.toLocaleString("en")} of ${pages.toLocaleString("en")}`;
};

const headings = [...document.querySelectorAll("#found thead a")].map((link) => [link, new URLSearchParams(link.hash.split("?")[1]).get("sort")]);
const showSort = (asked) => {
  const sort = new URLSearchParams(asked).get("sort") ?? "order", isTurned = sort.startsWith("-");
  for (const [link, first] of headings) {
    const isSorted = sort.replace("-", "") === first.replace("-", "");
    const query = new URLSearchParams(asked);
    query.set("sort", isSorted ? (isTurned ? sort.slice(1) : `-${sort}`) : first);
    link.setAttribute("href", address("records", query));
    if (isSorted) link.parentElement.setAttribute("aria-sort", isTurned ? "descending" : "ascending");
    else link.parentElement.removeAttribute("aria-sort");
  }
};

const showChoice = (query) => {
  for (const field of document.forms[0].elements) {
    if (!field.name || field === document.activeElement) continue;
    const value = query.get(field.name) ?? (field.name === "sort" ? "order" : "");
    // A figure may ask for more than the list offers, such as both kinds of error.
    if (field.options && ![...field.options].some((option) => option.value === value)) field.add(new Option(value.replaceAll("_", " "), value));
    field.value = value;
  }
};

let last = "";
const showList = async (query) => {
  const asked = plain(query), { rows } = await list(), numbers = await found(asked);
  const pages = Math.max(1, Math.ceil(numbers.length / PAGE));
  const page = Math.min(pages, Math.max(1, Number.parseInt(query.get("page") ?? "1", 10) || 1));
  const shown = numbers.slice((page - 1) * PAGE, page * PAGE);
  $("summary").textContent = summary(numbers.length, rows.length, (page - 1) * PAGE, shown.length, page, pages);
  const elements = read(shown.map((number) => rows[number].html).join(""), "table");
  for (const element of elements) for (const link of element.querySelectorAll?.("th a") ?? []) link.setAttribute("href", `${link.getAttribute("href")}${asked && `?${asked}`}`);
  $("rows").replaceChildren(...elements);
  $("found").hidden = !shown.length;
  $("nothing").hidden = shown.length > 0;
  $("unset").hidden = !asked || !shown.length;
  const steps = [["First", 1, page > 2], ["Previous", page - 1, page > 1], ["Next", page + 1, page < pages], ["Last", pages, page < pages - 1]];
  const rel = { Previous: "prev", Next: "next" };
  $("pages").replaceChildren(...steps.filter(([, , isThere]) => isThere).map(([text, number]) =>
    made("a", text, { class: "button", href: address("records", asked, number), ...(rel[text] ? { rel: rel[text] } : {}) })));
  showChoice(query);
  showSort(asked);
  document.title = `Records of ${ordinary}`;
  return () => $("rows").querySelector(`a[href^="${last}?"], a[href="${last}"]`)?.focus();
};

const showRecord = async (index, query) => {
  const asked = plain(query), { rows } = await list(), numbers = await found(asked);
  const number = rows.findIndex((row) => row.index === index);
  if (number < 0) {
    // Another record must not stand under this address.
    $("record").replaceChildren();
    $("steps").replaceChildren();
    $("copy-record").hidden = true;
    document.title = ordinary;
    throw new Error(`record ${index} is not in this file`);
  }
  const { html, json } = (await part(Math.floor(number / PART)))[number % PART];
  const place = numbers.indexOf(number);
  const neighbour = (text, rel, step) => (place < 0 || numbers[place + step] === undefined ? []
    : [made("a", text, { class: "button", rel, href: address(`record-${rows[numbers[place + step]].index}`, asked) })]);
  const which = place < 0 ? `not among the ${count(numbers.length, "record")} of the list`
    : `${(place + 1).toLocaleString("en")} of ${numbers.length.toLocaleString("en")} of the ${asked ? "list" : "file"}`;
  $("steps").replaceChildren(...neighbour("Previous", "prev", -1), ...neighbour("Next", "next", 1), made("span", which, { class: "soft" }));
  $("to-list").setAttribute("href", address("records", asked, place < 0 ? 1 : Math.floor(place / PAGE) + 1));
  $("record").replaceChildren(...read(html));
  $("copy-record").dataset.copy = json;
  $("copy-record").hidden = !navigator.clipboard;
  document.title = `${rows[number].name} · ${ordinary}`;
  last = `#record-${index}`;
  return () => { scrollTo(0, 0); $("main").focus({ preventScroll: true }); };
};

let turn = 0;
const show = async (name, make) => {
  const mine = ++turn;
  let settle = () => {};
  const patience = setTimeout(() => { $("busy").hidden = mine !== turn; }, 200);
  $("trouble").hidden = true;
  try { if (make) settle = await make(); } catch (problem) {
    $("trouble").textContent = typeof DecompressionStream === "undefined"
      ? "This browser is too old to show the records in this file; the page of the run is complete."
      : `The records cannot be shown: ${problem.message}`;
    $("trouble").hidden = false;
  }
  clearTimeout(patience);
  if (mine !== turn) return;
  $("busy").hidden = true;
  const isNew = views[name].hidden;
  for (const [each, view] of Object.entries(views)) view.hidden = each !== name;
  for (const link of document.querySelectorAll(".masthead nav a")) {
    if ((link.hash === "#top") === (name === "run")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.dispatchEvent(new Event("assay:changed"));
  if (isNew || name === "record") settle();
};

const route = () => {
  const [name, asked = ""] = location.hash.slice(1).split("?", 2);
  const query = new URLSearchParams(asked), record = /^record-(\d+)$/.exec(name);
  if (name === "records") return show("records", () => showList(query));
  if (record) return show("record", () => showRecord(Number(record[1]), query));
  const isNew = views.run.hidden;
  document.title = ordinary;
  show("run");
  if (isNew) $(name || "top")?.scrollIntoView();
};

if (views.records) {
  const form = document.forms[0];
  let wait;
  const send = () => {
    clearTimeout(wait);
    location.replace(address("records", plain(new URLSearchParams(new FormData(form)))));
  };
  form.addEventListener("submit", (event) => { event.preventDefault(); send(); });
  form.addEventListener("change", send);
  form.addEventListener("input", () => { clearTimeout(wait); wait = setTimeout(send, 200); });
  addEventListener("hashchange", route);
  route();
}
