import { decodeProtobuf } from '@oarlock/apiserver/endpoints/negotiation/protobuf-decoder';
import { parse as parseYaml } from 'yaml';
import { isFields, valueAt, type Answer, type Fields, type RunNames } from '../request.ts';

/** An answer without the values that differ between two runs of the same server. */
export interface NormalAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly warnings: readonly string[];
  /** The decoded object, the list of events of a watch, or text. */
  readonly body: unknown;
}

/** What a run replaces in answers. */
export interface RunContext {
  readonly names: RunNames;
  /** URL of the server that answered. */
  readonly server: string;
}

/** Headers whose values are compared. */
const comparedHeaders = ['allow', 'cache-control', 'content-encoding', 'content-type', 'location', 'retry-after', 'x-content-type-options'];
/** Headers whose values differ in every answer: only their presence is compared. */
const presentHeaders = ['audit-id', 'x-kubernetes-pf-flowschema-uid', 'x-kubernetes-pf-prioritylevel-uid'];
const uuid = /\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/g;
const timestamp = /\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g;
/** The server's clock may differ from the one that wrote the `Date` header of an aggregated answer. */
const nearMs = 48 * 3_600_000;
const allocated = new Set(['clusterIP', 'nodePort', 'healthCheckNodePort']);

/** Returns the answer with uids, current times, resource versions, allocated values and names of the run replaced by placeholders. */
export function normalize(answer: Answer, { names, server }: RunContext): NormalAnswer {
  const now = Date.parse(answer.headers['date'] ?? '');
  const host = new URL(server).host;
  const text = (value: string): string =>
    value
      .replaceAll(host, '<server>')
      .replaceAll(names.run, '<run>')
      .replaceAll(uuid, '<uuid>')
      .replaceAll(timestamp, (time, fraction?: string) =>
        Math.abs(Date.parse(time) - now) < nearMs ? (fraction === undefined ? '<time>' : '<micro-time>') : time,
      )
      .replace(/(Too large resource version: \d+, current: )\d+/, '$1<rv>')
      .replaceAll(/<run>-generated-[a-z0-9]{5}\b/g, '<run>-generated-<random>')
      .replaceAll(/kube-api-access-[a-z0-9]{5}\b/g, 'kube-api-access-<random>')
      .replaceAll(/\bX509SHA256=[0-9a-f]{64}\b/g, 'X509SHA256=<hash>')
      .replace(/(does not match the ResourceVersion in record \()\d+/, '$1<rv>')
      // a message that quotes the whole object
      .replaceAll(/Invalid value: "\{\\"apiVersion\\".*\}": /g, 'Invalid value: "<object>": ');
  const headers: Record<string, string> = {};
  for (const name of comparedHeaders) if (answer.headers[name] !== undefined) headers[name] = text(answer.headers[name]);
  for (const name of presentHeaders) if (answer.headers[name] !== undefined) headers[name] = '<present>';
  return {
    status: answer.status,
    headers,
    warnings: (answer.headers['warning'] ?? '')
      .split('\n')
      .filter((each) => each !== '')
      .map(text),
    body: normalizeValue(decodeBody(answer), text),
  };
}

/** Returns the object of a body in any media type; text that is no object stays text. */
export function decodeBody({ headers, body }: Pick<Answer, 'headers' | 'body'>): unknown {
  const type = (headers['content-type'] ?? '').split(';')[0];
  if (type === 'application/json') return decodeJson(body.toString('utf8'));
  if (type === 'application/yaml') return parseYaml(body.toString('utf8'), { schema: 'core' }) as unknown;
  if (type === 'application/vnd.kubernetes.protobuf' && body.length > 0) return decodeProtobuf(body);
  return body.toString('utf8');
}

function decodeJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    // the events of a watch: one document per line
  }
  const lines = text.split('\n').filter((line) => line !== '');
  try {
    return lines.map((line) => JSON.parse(line) as unknown).filter((event) => !isProgress(event));
  } catch {
    return text; // no JSON: the text itself is compared
  }
}

/** Returns whether an event is a bookmark that reports progress: when a server sends one depends on its timers. */
function isProgress(event: unknown): boolean {
  return valueAt(event, 'type') === 'BOOKMARK' && valueAt(event, 'object.metadata.annotations') === undefined;
}

function normalizeValue(value: unknown, text: (value: string) => string): unknown {
  if (typeof value === 'string') return text(value);
  if (Array.isArray(value)) return value.map((each) => normalizeValue(each, text));
  if (!isFields(value)) return value;
  const result: Fields = {};
  for (const [key, each] of Object.entries(value)) result[text(key)] = normalizeField(key, each, text);
  return result;
}

function normalizeField(key: string, value: unknown, text: (value: string) => string): unknown {
  if (key === 'resourceVersion' && typeof value === 'string' && value !== '') return '<rv>';
  if (key === 'continue' && typeof value === 'string' && value !== '') return '<continue>';
  if (allocated.has(key) && value !== 'None' && value !== '') return '<allocated>';
  if (key === 'clusterIPs' && Array.isArray(value)) return value.map((each) => (each === 'None' ? each : '<allocated>'));
  if (key === 'cells' && Array.isArray(value)) return value.map((cell) => normalizeCell(cell, text));
  if (key === 'managedFields' && Array.isArray(value)) return normalizeManagers(value, text);
  return normalizeValue(value, text);
}

/** Replaces ages and allocated addresses in a cell of a Table. */
function normalizeCell(cell: unknown, text: (value: string) => string): unknown {
  if (typeof cell !== 'string') return cell;
  if (/^\d+[smhd](\d+[smh])?$/.test(cell)) return '<age>';
  return /^\d+\.\d+\.\d+\.\d+$/.test(cell) ? '<ip>' : text(cell);
}

/** Sorts managers by name: a server sorts them by the second of their last change. */
function normalizeManagers(managers: readonly unknown[], text: (value: string) => string): readonly unknown[] {
  const nameOf = (manager: unknown) =>
    ['operation', 'manager', 'subresource', 'apiVersion'].map((key) => String(valueAt(manager, key))).join(' ');
  return managers.map((each) => normalizeValue(each, text)).sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
}
