// Compares a server's nodes with node-opcua's copies of the nodesets, node by node.
//
//   node nodeset.mjs URL
//
// It prints one line for each difference, and at the end a JSON line with counts and with the optional components of a
// VisionSystem that the server does not have. The exit code is 1 where there are differences.
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AddressSpace } from 'node-opcua-address-space';
import { generateAddressSpace } from 'node-opcua-address-space/nodeJS.js';
import { OPCUACertificateManager } from 'node-opcua-certificate-manager';
import { AttributeIds, BrowseDirection, NodeClass, OPCUAClient } from 'node-opcua-client';
import { nodesets } from 'node-opcua-nodesets';

const url = process.argv[2];
const differences = [];
const differ = (...words) => {
  differences.push(words.join(' '));
  if (differences.length <= 100) console.log(words.join(' '));
};

const space = AddressSpace.create();
await generateAddressSpace(space, [nodesets.standard, nodesets.machineVision]);
const theirs = 1, ours = 2; // the index of OPC 40100-1 in each namespace array

const client = OPCUAClient.create({
  endpointMustExist: false,
  connectionStrategy: { maxRetry: 0 },
  clientCertificateManager: new OPCUACertificateManager({ rootFolder: mkdtempSync(join(tmpdir(), 'pki-')), automaticallyAcceptUnknownCertificate: true }),
});
await client.connect(url);
const session = await client.createSession();

const toOurs = (id) => id.toString().replace(/^ns=1;/, `ns=${ours};`).replace(/^ns=0;/, '');
const name = (q) => `${q.namespaceIndex === theirs ? ours : q.namespaceIndex}:${q.name}`;

async function read(ids, attributeId) {
  const out = [];
  for (let i = 0; i < ids.length; i += 500) {
    out.push(...await session.read(ids.slice(i, i + 500).map((nodeId) => ({ nodeId, attributeId }))));
  }
  return out;
}

async function browse(ids, browseDirection) {
  const out = new Map();
  for (let i = 0; i < ids.length; i += 200) {
    const part = ids.slice(i, i + 200);
    const results = await session.browse(part.map((nodeId) => ({
      nodeId, browseDirection, referenceTypeId: null, includeSubtypes: true, nodeClassMask: 0, resultMask: 63,
    })));
    for (let [k, r] of results.entries()) {
      const refs = [...(r.references ?? [])];
      while (r.continuationPoint?.length) {
        r = await session.browseNext(r.continuationPoint, false);
        refs.push(...r.references);
      }
      out.set(part[k], refs);
    }
  }
  return out;
}

// What there is, found from the root along hierarchical references.
const found = new Map();
for (let level = ['i=84']; level.length > 0;) {
  const results = await browse(level, BrowseDirection.Forward);
  const next = [];
  for (const refs of results.values()) {
    for (const r of refs) {
      const id = r.nodeId.toString().replace(/^ns=0;/, '');
      if (!found.has(id)) {
        found.set(id, r);
        next.push(r.nodeId.toString());
      }
    }
  }
  level = next;
}

// 1. Each node of OPC 40100-1, with its attributes and its references.
const nodes = [...space.getNamespace('http://opcfoundation.org/UA/MachineVision').nodeIterator()];
const standard = [...found.keys()].filter((id) => id.startsWith('i=') && id !== 'i=84')
  .map((id) => ({ id, node: space.findNode(id) }))
  .filter(({ id, node }) => node || differ(id, 'is in no nodeset'))
  .map(({ node }) => node);

async function compare(list, withReferences) {
  const ids = list.map((n) => toOurs(n.nodeId));
  const attributes = {
    NodeClass: (n) => NodeClass[n.nodeClass],
    BrowseName: (n) => name(n.browseName),
    DisplayName: (n) => n.displayName[0].text ?? '',
    IsAbstract: (n) => n.isAbstract,
    DataType: (n) => n.dataType && toOurs(n.dataType),
    ValueRank: (n) => n.valueRank,
  };
  const applies = {
    IsAbstract: (n) => [NodeClass.ObjectType, NodeClass.VariableType, NodeClass.DataType, NodeClass.ReferenceType].includes(n.nodeClass),
    DataType: (n) => [NodeClass.Variable, NodeClass.VariableType].includes(n.nodeClass),
    ValueRank: (n) => [NodeClass.Variable, NodeClass.VariableType].includes(n.nodeClass),
  };
  for (const [attribute, want] of Object.entries(attributes)) {
    const values = await read(ids, AttributeIds[attribute]);
    for (const [i, n] of list.entries()) {
      if (applies[attribute] && !applies[attribute](n)) continue;
      const v = values[i];
      if (!v.statusCode.isGood()) {
        differ(ids[i], name(n.browseName), attribute, v.statusCode.name);
        continue;
      }
      let have = v.value.value;
      if (attribute === 'NodeClass') have = NodeClass[have];
      if (attribute === 'BrowseName') have = `${have.namespaceIndex}:${have.name}`;
      if (attribute === 'DisplayName') have = have.text ?? '';
      if (attribute === 'DataType') have = have.toString().replace(/^ns=0;/, '');
      const wanted = want(n);
      if (have !== wanted) differ(ids[i], name(n.browseName), attribute, JSON.stringify(have), 'want', JSON.stringify(wanted));
    }
  }
  if (!withReferences) return;
  const forward = await browse(ids, BrowseDirection.Forward), inverse = await browse(ids, BrowseDirection.Inverse);
  for (const [i, n] of list.entries()) {
    const have = new Set(), want = new Set();
    for (const refs of [forward.get(ids[i]), inverse.get(ids[i])]) {
      for (const r of refs) {
        const target = r.nodeId.toString().replace(/^ns=0;/, '');
        const kind = r.referenceTypeId.toString().replace(/^ns=0;/, '');
        if (!r.isForward && ['i=37', 'i=40'].includes(kind)) continue; // which node-opcua keeps at one end alone
        if (!target.startsWith('ns=3;')) have.add(`${kind} ${r.isForward ? '' : '-'}${target}`);
      }
    }
    for (const r of n.allReferences()) {
      want.add(`${toOurs(r.referenceType)} ${r.isForward ? '' : '-'}${toOurs(r.nodeId)}`);
    }
    for (const w of want) if (!have.has(w)) differ(ids[i], name(n.browseName), 'has no reference', w);
    for (const h of have) if (!want.has(h)) differ(ids[i], name(n.browseName), 'has a reference that is in no nodeset:', h);
  }
  // The arguments of methods and the values of enumerations.
  const valued = list.filter((n) => n.nodeClass === NodeClass.Variable && ['InputArguments', 'OutputArguments', 'EnumValues', 'EnumStrings',
    'StateNumber', 'TransitionNumber'].includes(n.browseName.name));
  const values = await read(valued.map((n) => toOurs(n.nodeId)), AttributeIds.Value);
  const plain = (v) => {
    const list = Array.isArray(v) ? v : [v];
    return JSON.stringify(list.map((e) => (e?.dataType ? [e.name, toOurs(e.dataType).replace(`ns=${theirs};`, `ns=${ours};`), e.valueRank]
      : e?.displayName ? [Number(e.value[1]), e.displayName.text] : e?.text ?? e)));
  };
  for (const [i, n] of valued.entries()) {
    const want = n.readValue().value.value;
    if (want === null || want === undefined) continue;
    const have = values[i].value?.value;
    if (plain(have) !== plain(want)) differ(toOurs(n.nodeId), name(n.browseName), plain(have), 'want', plain(want));
  }
}

await compare(nodes, true);
await compare(standard, false);

// 2. An instance has what its type declares as mandatory; what is optional and not there is counted.
const absent = [];
let instances = 0;

function declared(type) { // of a type and of those that it is a subtype of, by browse name
  const members = new Map();
  for (let t = type; t; t = t.subtypeOfObj) {
    for (const r of t.allReferences()) {
      if (!r.isForward || !['i=47', 'i=46'].includes(toOurs(r.referenceType))) continue;
      const m = space.findNode(r.nodeId);
      if (m.modellingRule && !members.has(name(m.browseName))) members.set(name(m.browseName), m);
    }
  }
  return members;
}

async function check(id, declarations, path) {
  instances++;
  const refs = (await browse([id], BrowseDirection.Forward)).get(id);
  const children = new Map(refs.map((r) => [`${r.browseName.namespaceIndex}:${r.browseName.name}`, r]));
  for (const [n, m] of declarations) {
    const child = children.get(n), at = `${path}.${m.browseName.name}`;
    if (!child) {
      if (m.modellingRule === 'Mandatory') differ(id, 'has no', n, 'which is mandatory');
      if (m.modellingRule === 'Optional') absent.push(at.slice(1));
      continue;
    }
    if (child.nodeClass !== m.nodeClass) differ(id, n, 'is a', NodeClass[child.nodeClass], 'want', NodeClass[m.nodeClass]);
    const typed = m.nodeClass !== NodeClass.Method;
    if (typed && child.typeDefinition.toString().replace(/^ns=0;/, '') !== toOurs(m.typeDefinition)) {
      differ(id, n, 'is of type', child.typeDefinition.toString(), 'want', toOurs(m.typeDefinition));
    }
    const inner = new Map([...(typed ? declared(m.typeDefinitionObj) : []), ...declared(m)]);
    if (m.nodeClass === NodeClass.Variable) {
      const [have] = await read([child.nodeId.toString()], AttributeIds.DataType);
      if (have.value.value.toString().replace(/^ns=0;/, '') !== toOurs(m.dataType)) differ(id, n, 'has data type', have.value.value.toString());
    }
    await check(child.nodeId.toString(), inner, at);
  }
}

const system = space.findObjectType('VisionSystemType', theirs);
const systems = (await browse(['i=85'], BrowseDirection.Forward)).get('i=85').filter((r) => r.typeDefinition.toString() === `ns=${ours};i=1003`);
if (systems.length === 0) differ('there is no VisionSystem under Objects');
for (const s of systems) await check(s.nodeId.toString(), declared(system), '');

console.log(JSON.stringify({ nodes: nodes.length, standard: standard.length, instances, systems: systems.length, absent, differences: differences.length }));
await session.close();
await client.disconnect();
process.exit(differences.length > 0 ? 1 : 0);
