// A line's program as an OPC UA client, by node-opcua: it holds a station, triggers and reads results.
//
//   node line.mjs '{"url": ..., "policy": "None", "mode": "None", "certificate": FILE, "key": FILE, "user": ..., "password": ...,
//                   "userCertificate": FILE, "userKey": FILE, "lifetime": ms of security tokens,
//                   "do": "refused" | "line" | "restart" | "renew", "parts": [...]}'
//
// The last line that it prints is JSON: what it saw. It judges nothing; the test that runs it knows the truth.
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { OPCUACertificateManager } from 'node-opcua-certificate-manager';
import {
  AttributeIds, ClientMonitoredItem, ClientSubscription, constructEventFilter, DataType, MessageSecurityMode, OPCUAClient,
  SecurityPolicy, TimestampsToReturn, UserTokenType, Variant, VariantArrayType,
} from 'node-opcua-client';

const want = JSON.parse(process.argv[2]);
const seen = { states: [], results: [], jobs: [], started: [], log: [] };
// finish never returns. A program that exits while a pipe is full would lose the rest.
const finish = (code) => new Promise(() => process.stdout.write(JSON.stringify(seen) + '\n', () => process.exit(code)));
const later = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const input = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const say = (word) => console.log(JSON.stringify({ say: word }));

const manager = new OPCUACertificateManager({ rootFolder: mkdtempSync(join(tmpdir(), 'pki-')), automaticallyAcceptUnknownCertificate: true });
await manager.initialize();
const options = {
  endpointMustExist: false,
  securityMode: MessageSecurityMode[want.mode ?? 'None'],
  securityPolicy: SecurityPolicy[want.policy ?? 'None'],
  connectionStrategy: { maxRetry: want.do === 'restart' ? 100 : 0, initialDelay: 100, maxDelay: 200 },
  clientCertificateManager: manager,
  defaultSecureTokenLifetime: want.lifetime ?? 600000,
  requestedSessionTimeout: 30000,
};
if (want.certificate) Object.assign(options, { certificateFile: want.certificate, privateKeyFile: want.key });
const client = OPCUAClient.create(options);
const identity = want.user ? { type: UserTokenType.UserName, userName: want.user, password: want.password }
  : want.userCertificate ? {
    type: UserTokenType.Certificate,
    certificateData: Buffer.from(readFileSync(want.userCertificate, 'latin1').replace(/-----[^-]+-----|\s/g, ''), 'base64'),
    privateKey: readFileSync(want.userKey, 'latin1'),
  }
    : { type: UserTokenType.Anonymous };

seen.renewed = 0;
client.on('security_token_renewed', () => { seen.renewed++; });
let session;
try {
  await client.connect(want.url);
  session = await client.createSession(identity);
} catch (err) {
  seen.refused = err.message;
  await finish(0);
}
seen.connected = true;
if (want.do === 'refused') {
  await session.close();
  await client.disconnect();
  await finish(0);
}

// The server's own objects are found by browsing, as a program has to that was not written for this server.
const cell = async (path) => {
  const r = await session.translateBrowsePath({
    startingNode: 'i=85',
    relativePath: { elements: path.split('/').map((p) => {
      const [ns, name] = p.split(':');
      return { referenceTypeId: 'i=33', isInverse: false, includeSubtypes: true, targetName: { namespaceIndex: Number(ns), name } };
    }) },
  });
  if (!r.statusCode.isGood()) throw new Error(`${path}: ${r.statusCode.name}`);
  return r.targets[0].targetId;
};
const system = '3:cell';
const ids = {
  machine: await cell(`${system}/2:VisionStateMachine`),
  automatic: await cell(`${system}/2:VisionStateMachine/2:AutomaticModeStateMachine`),
  recipes: await cell(`${system}/2:RecipeManagement`),
  results: await cell(`${system}/2:ResultManagement`),
  handshake: await cell(`${system}/3:Handshake`),
  beat: await cell(`${system}/3:Handshake/3:PlcHeartbeat`),
};
const own = {}; // methods of objects, by the id of the object
async function call(object, method, args = []) {
  const key = `${object}.${method}`;
  if (!own[key]) {
    const r = await session.browse({ nodeId: object, browseDirection: 0, referenceTypeId: 'i=47', includeSubtypes: true, nodeClassMask: 4, resultMask: 63 });
    own[key] = r.references.find((x) => x.browseName.name === method)?.nodeId;
    if (!own[key]) throw new Error(`${object} has no method ${method}`);
  }
  const r = await session.call({ objectId: object, methodId: own[key], inputArguments: args });
  if (!r.statusCode.isGood()) return { status: r.statusCode.name };
  return { status: 'Good', out: r.outputArguments.map((o) => o.value) };
}
const types = {};
async function structure(name, fields) {
  if (!types[name]) {
    const all = await session.browse({ nodeId: 'i=22', browseDirection: 0, referenceTypeId: 'i=45', includeSubtypes: true, nodeClassMask: 0, resultMask: 63 });
    const base = all.references.find((x) => x.browseName.name === 'BinaryIdBaseDataType');
    const more = await session.browse({ nodeId: base.nodeId, browseDirection: 0, referenceTypeId: 'i=45', includeSubtypes: true, nodeClassMask: 0, resultMask: 63 });
    for (const r of [...all.references, ...more.references]) types[r.browseName.name] = r.nodeId;
  }
  return new Variant({ dataType: DataType.ExtensionObject, value: await session.constructExtensionObject(types[name], fields) });
}

let beat = 0, beating = true;
const timer = setInterval(async () => {
  if (!beating) return;
  beat = (beat + 1) % 65536;
  try {
    const [status] = await session.write([{ nodeId: ids.beat, attributeId: AttributeIds.Value, value: { value: { dataType: DataType.UInt16, value: beat } } }]);
    if (!status.isGood()) seen.log.push(`heartbeat: ${status.name}`);
  } catch { /* while the connection is being made again */ }
}, 50);

const subscription = ClientSubscription.create(session, {
  requestedPublishingInterval: 20, requestedLifetimeCount: 1000, requestedMaxKeepAliveCount: 20, maxNotificationsPerPublish: 0,
  publishingEnabled: true, priority: 1,
});
const fields = ['EventType', 'SourceName', 'Message', 'FromState', 'ToState', 'Transition', '2:JobId', '2:ResultId', '2:ResultState', '2:IsPartial',
  '2:IsSimulated', '2:PartId', '2:MeasId', '2:InternalRecipeId', '2:InternalConfigurationId', '2:CreationTime', '2:ResultContent', '2:ExternalId', '2:InternalId'];
const waiting = new Map();
const events = ClientMonitoredItem.create(subscription, { nodeId: 'i=2253', attributeId: AttributeIds.EventNotifier },
  { samplingInterval: 0, discardOldest: true, queueSize: 200, filter: constructEventFilter(fields) }, TimestampsToReturn.Both);
events.on('changed', (values) => {
  const e = Object.fromEntries(fields.map((f, i) => [f.replace('2:', ''), values[i].value]));
  switch (e.EventType.toString()) {
    case 'ns=2;i=1018': case 'ns=2;i=1019': case 'ns=2;i=1020':
      seen.states.push(`${e.FromState.text}-${e.ToState.text}`);
      break;
    case 'ns=2;i=1013':
      seen.started.push(e.JobId.id);
      break;
    case 'ns=2;i=1022':
      seen.prepared = `${e.InternalId.id} ${e.InternalId.version}`;
      break;
    case 'ns=2;i=1024': {
      const content = e.ResultContent.map((v) => v.value ?? v);
      const r = {
        id: e.ResultId.id, state: e.ResultState, partial: e.IsPartial, simulated: e.IsSimulated, part: e.PartId.id ?? '', meas: e.MeasId.id,
        job: e.JobId.id, recipe: `${e.InternalRecipeId.id} ${e.InternalRecipeId.version}`, configuration: e.InternalConfigurationId.id,
        created: e.CreationTime instanceof Date, verdict: content[0], complement: content[1], sequence: content[3], trigger: content[4], values: content.slice(8),
      };
      seen.results.push(r);
      waiting.get(r.meas)?.(r);
    }
  }
});
await new Promise((resolve) => events.once('initialized', resolve));

const empty = async (meas, part) => [
  await structure('MeasIdDataType', { id: meas }), await structure('PartIdDataType', { id: part }),
  await structure('RecipeIdExternalDataType', { id: '' }), await structure('ProductIdDataType', { id: '' }),
  new Variant({ dataType: DataType.Variant, arrayType: VariantArrayType.Array, value: [] }),
];
const cause = [new Variant({ dataType: DataType.Int32, value: 1 }), new Variant({ dataType: DataType.String, value: 'the test wants it' })];

async function job(meas, part) {
  const result = new Promise((resolve) => waiting.set(meas, resolve));
  const r = await call(ids.automatic, 'StartSingleJob', await empty(meas, part));
  const answer = { meas, part, status: r.status, job: r.out?.[0].id, error: r.out?.[1] };
  seen.jobs.push(answer);
  if (r.status !== 'Good' || r.out[1] !== 0) return answer;
  const got = await Promise.race([result, later(20000)]);
  if (!got) throw new Error(`no ResultReady for ${meas}`);
  const read = await session.read(['Sequence', 'Verdict', 'Complement', 'TriggerId', 'SequenceEnd'].map((n) => ({
    nodeId: `ns=3;s=cell/Handshake/${n}`, attributeId: AttributeIds.Value })));
  answer.read = read.map((v) => v.value.value);
  const byID = await call(ids.results, 'GetResultById', [await structure('ResultIdDataType', { id: got.id }), new Variant({ dataType: DataType.Int32, value: 0 })]);
  answer.byID = byID.out && { error: byID.out[2], part: byID.out[1].partId?.id ?? '', state: byID.out[1].resultState, verdict: byID.out[1].resultContent?.[0]?.value };
  for (let i = 0; i < 400; i++) { // a busy machine may let the heartbeat be stale, and an acknowledgement is refused then
    const released = await call(ids.results, 'ReleaseResultHandle', [new Variant({ dataType: DataType.UInt32, value: byID.out?.[0] ?? 0 })]);
    answer.released = released.out?.[0];
    if (answer.released === 0) break;
    await later(20);
  }
  // Ready again, so that the next job can begin.
  for (let i = 0; i < 400; i++) {
    const [v] = await session.read([{ nodeId: 'ns=3;s=cell/Handshake/Ready', attributeId: AttributeIds.Value }]);
    if (v.value.value) break;
    await later(10);
  }
  return answer;
}
async function begin() {
  const out = [];
  out.push((await call(ids.machine, 'SelectModeAutomatic')).out?.[0]);
  const r = await call(ids.recipes, 'PrepareRecipe', [await structure('RecipeIdExternalDataType', { id: 'board' }), await structure('RecipeIdInternalDataType', { id: '' })]);
  out.push(r.out?.[2]);
  seen.recipe = `${r.out?.[0].id} ${r.out?.[0].version}`;
  const list = await call(ids.recipes, 'GetRecipeListFiltered', [await structure('RecipeIdExternalDataType', { id: '' }), await structure('ProductIdDataType', { id: '' }),
    new Variant({ dataType: DataType.Int32, value: 2 }), new Variant({ dataType: DataType.UInt32, value: 0 }), new Variant({ dataType: DataType.UInt32, value: 0 }),
    new Variant({ dataType: DataType.Int32, value: 0 })]);
  seen.recipes = list.out?.[3].map((r) => r.id);
  return out;
}

try {
  await later(100); // a heartbeat, which makes this client the holder
  await job('1', 'early2'); // before the state machine is operational
  seen.begun = await begin();
  let meas = 10;
  for (const part of want.parts) await job(String(meas++), part);
  if (want.do === 'line') {
    const again = await call(ids.automatic, 'StartSingleJob', await empty('10', want.parts[0])); // an id that was there
    seen.again = again.out?.[0].id;
    seen.wrong = (await call(ids.automatic, 'StartSingleJob', [])).status;
    seen.halt = (await call(ids.machine, 'Halt', cause)).out?.[0];
    seen.halted = (await call(ids.automatic, 'StartSingleJob', await empty('99', 'h2'))).out?.[1];
    seen.reset = (await call(ids.machine, 'Reset', cause)).out?.[0];
    const run = await call(ids.automatic, 'StartContinuous', await empty('', ''));
    seen.continuous = [run.out?.[0].id, run.out?.[1]];
    const done = new Promise((resolve) => waiting.set('200', resolve));
    await call(ids.handshake, 'Trigger', [new Variant({ dataType: DataType.UInt32, value: 200 }), new Variant({ dataType: DataType.String, value: 'run2' })]);
    seen.ran = await Promise.race([done, later(20000)]);
    await call(ids.handshake, 'Acknowledge', [new Variant({ dataType: DataType.UInt32, value: seen.ran.sequence })]);
    seen.stop = (await call(ids.automatic, 'Stop', cause)).out?.[0];
    // The PLC's heartbeat stops: not ready.
    await later(100);
    beating = false;
    for (let i = 0; i < 3000 && seen.stale === undefined; i++) {
      const read = await session.read(['Ready', 'Missing', 'Verdict'].map((n) => ({ nodeId: `ns=3;s=cell/Handshake/${n}`, attributeId: AttributeIds.Value })));
      if (!read[0].value.value && read[1].value.value === 3) seen.stale = read[2].value.value;
      await later(10);
    }
  }
  // Jobs go on while security tokens are renewed under them.
  for (let i = 0; want.do === 'renew' && seen.renewed < 2; i++) {
    if (i > 6000) throw new Error(`${seen.renewed} renewals`);
    await job(String(1000 + i), `r${i % 10}`);
    await later(20);
  }
  if (want.do === 'restart') {
    const back = new Promise((resolve) => client.once('connection_reestablished', resolve));
    say('restart');
    await input.next(); // the server is another one
    await back;
    await later(100);
    let r;
    for (let i = 0; i < 100; i++) { // until the session is made anew
      r = await job('500', 'after2').catch((err) => ({ status: err.message }));
      if (r.error !== undefined) break;
      await later(100);
    }
    seen.afterRestart = r.error;
    seen.begunAgain = await begin();
    await job('501', 'again2');
  }
  await later(100);
  clearInterval(timer);
  await session.close();
  await client.disconnect();
} catch (err) {
  seen.failed = err.stack;
}
await finish(seen.failed ? 1 : 0);
