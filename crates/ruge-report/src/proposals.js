'use strict';
(() => {
  const section = document.getElementById('proposals');
  const table = section.querySelector('table.proposals');
  const body = table.tBodies[0];
  const part = name => section.querySelector('[data-part="' + name + '"]');
  const [base, ruleNames, assumes] = JSON.parse(table.dataset.about);
  const STEP = 200;
  const rows = [...body.rows].map((row, place) => {
    const [head, relation, tail, truth, kinds, rules, group] = JSON.parse(row.dataset.fact);
    // Names are looked for and sorted as they are shown, found by their own spelling, too, and downloaded as they are.
    const called = Object.fromEntries(['head', 'relation', 'tail'].map((key, at) => [key, row.cells[at + 1].textContent]));
    const text = [head, relation, tail, ...Object.values(called)].join(' ').toLowerCase();
    return { row, place, head, relation, tail, truth, kinds, rules: rules.map(at => ruleNames[at]), group, text, called };
  });
  let listed = rows, shown = STEP, order = 'truth', falling = true;

  // What a file says; the same bytes as the program writes.
  const tsv = text => text.replace(/[\\\t\n\r]/g, c => ({ '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' })[c]);
  const csv = text => /[,"\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  const code = c => '\\u' + c.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0');
  const quoted = (text, quote) => quote + text.replace(/["'\\\p{Cc}]/gu, c => {
    if (c === quote || c === '\\') return '\\' + c;
    return { '"': c, "'": c, '\n': '\\n', '\r': '\\r', '\t': '\\t' }[c] ?? code(c);
  }) + quote;
  // A backslash of a name before its letter u must not become an escape.
  const cypher = text => quoted(text, "'").replace(/((?:\\\\)+)u/g, '$1\\u0075');
  const percent = name => encodeURIComponent(name).replace(/[!'()*]/g, c => '%' + c.charCodeAt(0).toString(16).toUpperCase());
  const term = (name, kind) => kind === 't' ? name : '<' + (kind === 'i' ? name : base + percent(name)) + '>';
  const statement = x => [x.head, x.relation, x.tail].map((name, at) => term(name, x.kinds[at])).join(' ');
  const remark = (sign, text) => assumes ? sign + ' ' + assumes.replace(/[\p{Cc}\u2028\u2029]/gu, ' ') + '\n' + text : text;
  const formats = {
    tsv: ['tsv', list => 'head\trelation\ttail\ttruth\trules\n' + list.map(x =>
      [x.head, x.relation, x.tail, x.truth, x.rules.join('; ')].map(tsv).join('\t') + '\n').join('')],
    csv: ['csv', list => 'head,relation,tail,truth,rules\r\n' + list.map(x =>
      [x.head, x.relation, x.tail, x.truth, x.rules.join('; ')].map(csv).join(',') + '\r\n').join('')],
    nt: ['nt', list => remark('#', list.map(x => statement(x) + ' .\n').join(''))],
    'rdf-star': ['ttl', list => remark('#', list.map(x => '<< ' + statement(x) + ' >> <urn:x-ruge:truth> ' + x.truth +
      (x.rules.length ? ' ; <urn:x-ruge:rule> ' + x.rules.map(rule => quoted(rule, '"')).join(' , ') : '') + ' .\n').join(''))],
    cypher: ['cypher', list => remark('//', list.map(x => {
      const type = (x.relation.replace(/[\\\p{Cc}]/gu, '_') || '_').replaceAll('`', '``');
      return 'MERGE (h:Entity {name: ' + cypher(x.head) + '}) MERGE (t:Entity {name: ' + cypher(x.tail) + '}) ' +
        'MERGE (h)-[r:`' + type + '` {name: ' + cypher(x.relation) + '}]->(t) ' +
        'SET r.truth = ' + x.truth + ', r.rules = [' + x.rules.map(cypher).join(', ') + '];\n';
    }).join(''))],
  };

  const number = count => count.toLocaleString('en');
  const draw = () => {
    body.replaceChildren(...listed.slice(0, shown).map(x => x.row));
    part('count').textContent = number(listed.length) + ' of ' + number(rows.length) + ' facts listed' +
      (listed.length > shown ? ', the first ' + number(shown) + ' shown' : '');
    part('more').hidden = listed.length <= shown;
    part('downloads').querySelectorAll('button').forEach(button => { button.disabled = !listed.length; });
  };
  const choose = () => {
    const group = part('relation').value, least = Number(part('truth').value) || 0;
    const words = part('name').value.trim().toLowerCase();
    listed = rows.filter(x => (group === '' || x.group === Number(group)) && x.truth >= least && x.text.includes(words));
    const compare = order === 'truth' ? (a, b) => a.truth - b.truth : (a, b) => a.called[order].localeCompare(b.called[order], 'en');
    listed.sort((a, b) => (falling ? compare(b, a) : compare(a, b)) || a.place - b.place);
    draw();
  };
  ['relation', 'truth', 'name'].forEach(name => part(name).addEventListener('input', () => { shown = STEP; choose(); }));
  part('more').addEventListener('click', () => { shown = Infinity; draw(); });
  table.querySelectorAll('th[data-sort]').forEach(head => {
    const button = document.createElement('button');
    button.type = 'button';
    button.append(...head.childNodes);
    head.append(button);
    const mark = () => head.setAttribute('aria-sort', order !== head.dataset.sort ? 'none' : falling ? 'descending' : 'ascending');
    mark();
    table.addEventListener('sorted', mark);
    button.addEventListener('click', () => {
      falling = order === head.dataset.sort ? !falling : head.dataset.sort === 'truth';
      order = head.dataset.sort;
      table.dispatchEvent(new Event('sorted'));
      choose();
    });
  });
  part('downloads').querySelectorAll('button').forEach(button => button.addEventListener('click', () => {
    const [ending, write] = formats[button.dataset.format];
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([write(listed)], { type: 'text/plain;charset=utf-8' }));
    link.download = 'proposals.' + ending;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }));
  part('controls').hidden = false;
  choose();
})();
