// The page of a gateway: it asks for status.json, and shows it. It changes nothing, and asks nobody else.

// What a bit that is set means: most are well, these are not.
const alarms = new Set(['late', 'incomplete', 'overrun', 'server_lost']);

// node makes an element. Whatever comes from the gateway is text, never markup.
function node(tag, props, ...children) {
  const e = Object.assign(document.createElement(tag), props);
  e.append(...children);
  return e;
}
const fact = (name, value) => node('div', {}, node('dt', {}, name), node('dd', {}, String(value)));
const time = (text) => (text ? new Date(text).toLocaleTimeString(undefined, { hour12: false, fractionalSecondDigits: 3 }) : '-');
const ms = (us) => (us / 1000).toFixed(2);

// way is the timeline of a result: milliseconds from its first step that is known.
function way(steps) {
  const first = Math.min(...steps.map((s) => Date.parse(s.at)));
  return steps.map((s) => `${s.name} +${(Date.parse(s.at) - first).toFixed(0)} ms`).join('\n');
}

function card(s) {
  const results = s.results.map((r) => node('tr', { title: way(r.steps) },
    node('td', {}, time(r.answered)), node('td', {}, String(r.trigger)), node('td', {}, r.part || '-'),
    node('td', { className: r.verdict }, r.verdict), node('td', {}, r.reason), node('td', {}, ms(r.latency_us)),
    node('td', {}, r.acked ? time(r.acked) : 'no')));
  return node('section', { className: 'card', id: `station-${s.name}` },
    node('div', { className: 'head' }, node('h2', {}, s.name),
      node('span', { className: s.missing ? 'state bad' : 'state' }, s.missing ? `${s.state}: ${s.missing}` : s.state)),
    node('dl', { className: 'facts' },
      fact('held by', s.holder ? `${s.holder} since ${time(s.held_since)}` : 'nobody'), fact('server', s.server),
      fact('recipe', s.recipe ? `${s.recipe}@${s.version}, slot ${s.slot}` : 'none'), fact('waiting', s.waiting),
      fact('running', s.running), fact('heartbeat', s.heartbeat)),
    node('h3', {}, 'Bits'),
    node('ul', { className: 'bits' }, ...s.bits.map((b) => node('li', {
      className: b.on ? (alarms.has(b.name) ? 'alarm' : 'on') : '', ariaLabel: `${b.name} ${b.on ? 1 : 0}`,
    }, `${b.name} ${b.on ? 1 : 0}`))),
    node('h3', {}, 'Counters'),
    node('dl', { className: 'facts' }, ...s.counters.map((c) => fact(c.name, c.value))),
    node('h3', {}, 'Last ten results, the latest first'),
    s.results.length === 0 ? node('p', { className: 'empty' }, 'None yet.')
      : node('div', { className: 'scroll' }, node('table', {},
        node('thead', {}, node('tr', {}, ...['answered', 'trigger', 'part', 'verdict', 'reason', 'ms', 'acknowledged']
          .map((t) => node('th', { scope: 'col' }, t)))),
        node('tbody', {}, ...results))));
}

const at = (id) => document.getElementById(id);
async function look() {
  try {
    const r = await fetch('/status.json', { signal: AbortSignal.timeout(2000) });
    if (!r.ok) throw new Error(`${r.status} ${r.statusText}`);
    const s = await r.json();
    at('version').textContent = s.version;
    at('servers').replaceChildren(...s.links.map((l) => node('li', { className: l.up ? 'state' : 'state bad' },
      l.up ? l.name : `${l.name} lost`)));
    at('stations').replaceChildren(...s.stations.map(card));
    at('silent').hidden = true;
  } catch (err) {
    // What stands there is old: it must not look as if it were now.
    at('silent').textContent = `The gateway does not answer: ${err.message}`;
    at('silent').hidden = false;
    at('stations').replaceChildren();
    at('servers').replaceChildren();
  }
  setTimeout(look, 500);
}
look();
