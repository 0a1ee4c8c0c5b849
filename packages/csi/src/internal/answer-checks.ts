import { GrpcError } from '@oarlock/grpc/grpc-error';
import type { Strings, Topology } from '../csi-types.ts';

/** The maximum length of the id of a volume, a snapshot or a group. The limit of the CSI specification is 128 bytes; drivers that put paths of a cloud into ids exceed that. */
const maxIdBytes = 2048;
/** The maximum length of a node id, as the validation of CSINode has it. */
const maxNodeIdBytes = 256;
/** The maximum size of all keys and values of a map. The limit of the CSI specification is 4 KiB; the limit keeps objects that hold the map below the limit of etcd. */
const maxMapBytes = 64 * 1024;
/** The maximum length of a message, which becomes the message of an event. */
const maxMessageBytes = 4096;
const maxTopologies = 1024;
const maxSegments = 64;

const driverName = /^[a-zA-Z0-9]([-a-zA-Z0-9.]{0,61}[a-zA-Z0-9])?$/;
const segmentKey = /^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\/)?[a-zA-Z0-9]([-_.a-zA-Z0-9]{0,61}[a-zA-Z0-9])?$/;
const segmentValue = /^[a-zA-Z0-9]([-_.a-zA-Z0-9]{0,61}[a-zA-Z0-9])?$/;
const controlCharacter = /\p{Cc}/u;

/** Checks one field of a driver's answer; the error names the call, the field and the value. */
export class AnswerChecks {
  readonly #method: string;

  /** @param method the call that was answered, such as `CreateVolume` */
  constructor(method: string) {
    this.#method = method;
  }

  /** Returns a message field that the specification requires. @throws GrpcError `INTERNAL` if the field is absent */
  present<T extends object>(field: string, value: T | undefined): T {
    return value ?? this.#reject(field, undefined, 'is required');
  }

  id(field: string, value: string, maxBytes = maxIdBytes): string {
    if (value === '') this.#reject(field, value, 'must not be empty');
    if (Buffer.byteLength(value) > maxBytes) this.#reject(field, value, `must have at most ${maxBytes} bytes`);
    if (controlCharacter.test(value)) this.#reject(field, value, 'must not contain control characters');
    return value;
  }
  nodeId(field: string, value: string): string {
    return this.id(field, value, maxNodeIdBytes);
  }
  /** Checks that an answer is about the object that was requested. */
  same(field: string, value: string, requested: string): void {
    if (value !== requested) this.#reject(field, value, `must be ${print(requested)}, as requested`);
  }
  /** Checks that a list goes on: the token of the next page is another one. */
  different(field: string, value: string, previous: string): void {
    if (value === previous) this.#reject(field, value, 'must differ from the token of the page');
  }
  /** Checks that an answer has something for each of the requested ids. */
  complete(field: string, ids: ReadonlySet<string>, requested: ReadonlySet<string>): void {
    const missing = [...requested].find((id) => !ids.has(id));
    if (missing !== undefined) this.#reject(field, missing, 'is requested and missing');
  }
  oneOf(field: string, value: string, requested: ReadonlySet<string>): void {
    if (!requested.has(value)) this.#reject(field, value, `must be one of the requested [${[...requested].map(print).join(' ')}]`);
  }

  driverName(field: string, value: string): string {
    if (!driverName.test(value)) this.#reject(field, value, 'must be a domain name of at most 63 characters');
    return value;
  }

  /** Checks a size in bytes: at most 8 PiB, which a number represents exactly. */
  bytes(field: string, value: number): number {
    if (value < 0) this.#reject(field, value, 'must not be negative');
    if (!Number.isSafeInteger(value)) this.#reject(field, value, `must be at most ${Number.MAX_SAFE_INTEGER}`);
    return value;
  }
  atLeast(field: string, value: number, requested: number): void {
    if (value < requested) this.#reject(field, value, `must be at least ${requested}, as requested`);
  }
  /** Checks a count or a size that may be unlimited, for which drivers report the largest number of 64 bits. */
  notNegative(field: string, value: number): number {
    if (value < 0) this.#reject(field, value, 'must not be negative');
    return value;
  }

  message(field: string, value: string): string {
    if (Buffer.byteLength(value) > maxMessageBytes) this.#reject(field, value, `must have at most ${maxMessageBytes} bytes`);
    return value;
  }

  strings(field: string, value: Strings = {}): Strings {
    let bytes = 0;
    for (const [key, each] of Object.entries(value)) {
      if (key === '') this.#reject(field, key, 'must not have an empty key');
      bytes += Buffer.byteLength(key) + Buffer.byteLength(each);
      if (bytes > maxMapBytes) this.#reject(field, `${key}=${each}`, `must have at most ${maxMapBytes} bytes in all`);
    }
    return value;
  }

  topologies(field: string, value: readonly Topology[] = []): void {
    if (value.length > maxTopologies) this.#reject(field, value.length, `must have at most ${maxTopologies} entries`);
    for (const [at, each] of value.entries()) this.topology(`${field}[${at}]`, each);
  }
  /** Checks a topology, whose segments become labels of nodes and terms of node affinities. */
  topology(field: string, { segments = {} }: Partial<Topology>): void {
    const entries = Object.entries(segments);
    if (entries.length > maxSegments) this.#reject(`${field}.segments`, entries.length, `must have at most ${maxSegments} entries`);
    for (const [key, each] of entries) {
      if (!segmentKey.test(key)) this.#reject(`${field}.segments`, key, 'must have keys that are label names');
      if (!segmentValue.test(each)) this.#reject(`${field}.segments[${key}]`, each, 'must be a label value that is not empty');
    }
  }

  time(field: string, value: { readonly seconds: number; readonly nanos: number } | undefined): void {
    if (value === undefined) return;
    const { seconds, nanos } = value;
    if (seconds < 0 || seconds > lastSecond) this.#reject(`${field}.seconds`, seconds, `must be between 0 and ${lastSecond}`);
    if (nanos < 0 || nanos > 999_999_999) this.#reject(`${field}.nanos`, nanos, 'must be between 0 and 999999999');
  }

  /** Rejects an answer with more entries than were requested or can be handled. */
  count(field: string, value: number, limit: number): void {
    if (value > limit) this.#reject(field, value, `must have at most ${limit} entries`);
  }

  #reject(field: string, value: string | number | undefined, rule: string): never {
    const suffix = value === undefined ? '' : ` ${print(value)}`;
    throw new GrpcError('INTERNAL', `the driver's answer to ${this.#method} is invalid: ${field}${suffix} ${rule}`);
  }
}

/** The end of the year 9999 in seconds since the epoch. RFC 3339 has no later time. */
const lastSecond = 253_402_300_799;
const maxPrinted = 64;
/** Quotes a value for an error message; a long string is cut. */
const print = (value: string | number) =>
  typeof value === 'string' && value.length > maxPrinted
    ? `${JSON.stringify(value.slice(0, maxPrinted))}... (${Buffer.byteLength(value)} bytes)`
    : JSON.stringify(value);
