import { gunzipSync } from 'node:zlib';
import { isFields, valueAt, type Fields } from '../request.ts';
import { decodeBody } from '../compare/normalize.ts';
import { yamlOf } from './yaml.ts';
import type { Exchange, Probe } from './probe.ts';

const table = 'application/json;as=Table;v=v1;g=meta.k8s.io';
const partial = 'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io';
const protobuf = 'application/vnd.kubernetes.protobuf';
const selectorOf = (name: string) => `fieldSelector=metadata.name%3D${name}`;

/** Creates an object and returns the answer, or undefined if the server rejects it. */
async function stored(probe: Probe): Promise<{ readonly path: string; readonly name: string; readonly created: Exchange } | undefined> {
  const { object, path, name } = probe.fresh();
  const created = await probe.create(object);
  return probe.expectStatus('create', created, 201) ? { path, name, created } : undefined;
}

function typed({ kind }: Probe, item: unknown): unknown {
  return isFields(item) ? { kind: kind.kind.kind, apiVersion: kind.apiVersion, ...item } : item;
}

/** A get, a list and a watch return the object that the create returned. */
export async function readsEqualCreate(probe: Probe): Promise<void> {
  const object = await stored(probe);
  if (object === undefined) return;
  const { path, name, created } = object;
  const got = await probe.get(path);
  probe.expectSame('get', created, got, { status: true });
  const list = await probe.get(`${probe.list}?${selectorOf(name)}`);
  probe.expectEqual('list', list.request, [got.body, typed(probe, valueAt(list.body, 'items.0'))]);
  probe.expectEqual('length of the list', list.request, [1, (valueAt(list.body, 'items') as unknown[] | undefined)?.length]);
  const cached = await probe.get(`${probe.list}?${selectorOf(name)}&resourceVersion=0`);
  probe.expectEqual('list of the watch cache', cached.request, [valueAt(list.body, 'items'), valueAt(cached.body, 'items')]);
  const watch = await probe.get(`${probe.list}?${selectorOf(name)}&watch=1&timeoutSeconds=1&resourceVersion=0`);
  const event = Array.isArray(watch.body) ? (watch.body[0] as unknown) : watch.body;
  probe.expectEqual('watch', watch.request, [{ type: 'ADDED', object: got.body }, event]);
  const metadata = await probe.get(path, partial);
  probe.expectEqual('PartialObjectMetadata', metadata.request, [valueAt(got.body, 'metadata'), valueAt(metadata.body, 'metadata')]);
}

/** JSON, YAML and protobuf are the same object, in answers and in requests. */
export async function mediaTypesAgree(probe: Probe): Promise<void> {
  const object = await stored(probe);
  if (object === undefined) return;
  const types = ['application/yaml', ...(probe.kind.isCustom ? [] : [protobuf])];
  const json = await probe.get(object.path);
  for (const type of types) {
    const other = await probe.get(object.path, type);
    // protobuf has no null
    const expected = (value: unknown) => (type === protobuf ? withoutNulls(value) : value);
    probe.expectEqual(`get as ${type}`, other.request, [expected(json.body), other.body]);
    const list = `${probe.list}?${selectorOf(object.name)}`;
    probe.expectEqual(`list as ${type}`, other.request, [
      expected(valueAt((await probe.get(list)).body, 'items')),
      valueAt((await probe.get(list, type)).body, 'items'),
    ]);
  }
  const { object: body } = probe.fresh();
  const asJson = await probe.create(body, '?dryRun=All');
  const send = (contentType: string, bytes: unknown) =>
    probe.send({ method: 'POST', path: `${probe.list}?dryRun=All`, headers: { 'content-type': contentType }, body: bytes });
  probe.expectSame('create from YAML', asJson, await send('application/yaml', yamlOf(body)));
  if (probe.kind.isCustom) return;
  // a dry run answers with an object that the server accepts in a create, except for a Job: its labels have the uid of the object
  const encoded = await probe.send({ method: 'POST', path: `${probe.list}?dryRun=All`, headers: { accept: protobuf }, body });
  probe.expectEqual('create as protobuf', encoded.request, [withoutNulls(asJson.body), encoded.body]);
  if (probe.kind.id === 'jobs.batch') return;
  probe.expectSame('create from protobuf', asJson, await send(protobuf, encoded.answer.body), { metadata: ['managedFields'] });
}

function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (!isFields(value)) return value;
  const entries = Object.entries(value).filter(([, each]) => each !== null);
  return Object.fromEntries(entries.map(([key, each]) => [key, withoutNulls(each)]));
}

/** A Table has a row per object and a cell per column, of the column's type; a list and a get print the same row. */
export async function tablesAgree(probe: Probe): Promise<void> {
  const object = await stored(probe);
  if (object === undefined) return;
  const one = await probe.get(object.path, table);
  const list = await probe.get(`${probe.list}?${selectorOf(object.name)}`, table);
  const none = await probe.get(`${probe.list}?labelSelector=differ%3Dnone`, table);
  if (!probe.expectStatus('Table', one, 200)) return;
  const columns = valueAt(one.body, 'columnDefinitions') as readonly { readonly name: string; readonly type: string }[];
  probe.expectEqual('columns of the list', list.request, [columns, valueAt(list.body, 'columnDefinitions')]);
  probe.expectEqual('columns of an empty list', none.request, [columns, valueAt(none.body, 'columnDefinitions')]);
  const [row, listed] = [valueAt(one.body, 'rows.0'), valueAt(list.body, 'rows.0')];
  probe.expectEqual('row of the list', list.request, [valueAt(row, 'object'), valueAt(listed, 'object')]);
  const cells = (valueAt(row, 'cells') ?? []) as readonly unknown[];
  probe.expectEqual('number of cells', one.request, [columns.length, cells.length]);
  const wrong = columns.filter(({ type }, at) => !isOfType(cells[at], type)).map(({ name }) => name);
  probe.expectEqual('columns with a cell of another type', one.request, [[], wrong]);
  probe.expectEqual('name', one.request, [object.name, cells[columns.findIndex(({ name }) => name === 'Name')] ?? object.name]);
}

function isOfType(cell: unknown, type: string): boolean {
  if (cell === null) return true;
  switch (type) {
    case 'integer':
      return Number.isSafeInteger(cell);
    case 'number':
      return typeof cell === 'number';
    case 'boolean':
      return typeof cell === 'boolean' || cell === 'True' || cell === 'False'; // kube-apiserver prints the column Suspend as text
    default:
      return true; // kube-apiserver also prints numbers in columns of strings
  }
}

/** Pages, compression and formatting do not change what a list contains; selectors select. */
export async function listOptionsAgree(probe: Probe): Promise<void> {
  const group = `g${probe.fresh().name.replaceAll('.', '-')}`.slice(0, 60);
  const names: string[] = [];
  for (let at = 0; at < 3; at += 1) {
    const { object, name } = probe.fresh();
    const created = await probe.create({ ...object, metadata: { ...object.metadata, labels: { group, at: String(at) } } });
    if (!probe.expectStatus('create', created, 201)) return;
    names.push(name);
  }
  const all = await probe.get(`${probe.list}?labelSelector=group%3D${group}`);
  const namesOf = (body: unknown) => ((valueAt(body, 'items') ?? []) as readonly unknown[]).map((item) => valueAt(item, 'metadata.name'));
  probe.expectEqual('label selector', all.request, [names.toSorted(), namesOf(all.body).sort()]);
  const some = await probe.get(`${probe.list}?labelSelector=group%3D${group},at+in+(0,2),at+notin+(2),at`);
  probe.expectEqual('set-based selector', some.request, [[names[0]], namesOf(some.body)]);
  const pages: unknown[] = [];
  let token = '';
  do {
    const page = await probe.get(`${probe.list}?labelSelector=group%3D${group}&limit=1&continue=${encodeURIComponent(token)}`);
    if (!probe.expectStatus('page', page, 200)) return;
    pages.push(...(valueAt(page.body, 'items') as unknown[]));
    token = String(valueAt(page.body, 'metadata.continue') ?? '');
  } while (token !== '' && pages.length < 10);
  probe.expectEqual('pages', all.request, [valueAt(all.body, 'items'), pages]);
  const pretty = await probe.get(`${probe.list}?labelSelector=group%3D${group}&pretty=true`);
  probe.expectEqual('pretty', pretty.request, [valueAt(all.body, 'items'), valueAt(pretty.body, 'items')]);
  probe.expectEqual('indentation', pretty.request, [true, pretty.answer.body.includes('\n  "')]);
  await compressionAgrees(probe, all);
}

async function compressionAgrees(probe: Probe, all: Exchange): Promise<void> {
  const { answer, request } = await probe.send({ ...all.request, headers: { 'accept-encoding': 'gzip' } });
  const body = answer.headers['content-encoding'] === 'gzip' ? gunzipSync(answer.body) : answer.body;
  probe.expectEqual('compressed', request, [valueAt(all.body, 'items'), valueAt(decodeBody({ ...answer, body }), 'items')]);
}

/** The status subresource changes the status only, and the main resource everything else. */
export async function statusIsSeparate(probe: Probe): Promise<void> {
  const { kind } = probe;
  const object = await stored(probe);
  if (object === undefined || kind.status === undefined || !kind.kind.subresources.some(({ name }) => name === 'status')) return;
  const before = await probe.get(object.path);
  const whole = before.body as Fields & { readonly metadata: Fields };
  const body = { ...whole, metadata: { ...whole.metadata, labels: { a: 'b' } }, status: kind.status };
  const changed = await probe.send({ method: 'PUT', path: `${object.path}/status?dryRun=All`, body });
  probe.expectSame('dry run of the status', changed, await probe.send({ method: 'PUT', path: `${object.path}/status`, body }), {
    metadata: ['resourceVersion'],
  });
  const after = await probe.get(object.path);
  probe.expectSame('get of the subresource', after, await probe.get(`${object.path}/status`));
  const reset = await probe.send({ method: 'PUT', path: object.path, body: { ...(after.body as Fields), status: {} } });
  probe.expectEqual('status after an update of the object', reset.request, [valueAt(after.body, 'status'), valueAt(reset.body, 'status')]);
}
