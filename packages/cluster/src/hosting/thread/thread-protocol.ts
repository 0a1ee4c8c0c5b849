import type { KubeObject } from '@oarlock/api/object';
import type { Status } from '@oarlock/api/status';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { AdmissionRule } from '@oarlock/spi/admission';
import type { WatchEvent } from '@oarlock/spi/client';
import type { ClusterFacts } from '@oarlock/spi/cluster';

/** Input of a new thread. */
export interface ThreadData {
  /** Module specifier that the thread imports to load the plugin. */
  readonly module: string;
  readonly name: string;
  readonly config: unknown;
  readonly dataDir: string;
  readonly facts: ClusterFacts;
  /** Element 0 is the id of the call whose synchronous code is running, or 0 if none is: this distinguishes an endless loop from a waiting call. */
  readonly running: Int32Array;
}

/** An error that is sent between threads. Errors of the Kubernetes API keep their Status. */
export interface SerializedError {
  readonly message: string;
  readonly stack?: string;
  readonly status?: Status;
}

export type ToThreadMessage =
  | { readonly type: 'call'; readonly id: number; readonly method: string; readonly args: readonly unknown[] }
  | { readonly type: 'ping' }
  | { readonly type: 'subscribe' }
  | { readonly type: 'unsubscribe' }
  | { readonly type: 'stop' }
  | { readonly type: 'answer'; readonly id: number; readonly value?: unknown; readonly error?: SerializedError }
  | { readonly type: 'events'; readonly id: number; readonly events: readonly WatchEvent<KubeObject>[] }
  | { readonly type: 'watched'; readonly id: number; readonly error?: SerializedError };

/** What the other thread reads of a plugin without a call, once the plugin has started. */
export interface ReadyMessage {
  readonly type: 'ready';
  readonly methods: readonly string[];
  /** Of an admission plugin. */
  readonly matches: readonly AdmissionRule[];
  /** Of a cloud provider with load balancers. */
  readonly loadBalancerClass?: string;
}

export type FromThreadMessage =
  | ReadyMessage
  | { readonly type: 'refused'; readonly error: SerializedError }
  | { readonly type: 'pong' }
  | { readonly type: 'keys'; readonly keys: readonly string[]; readonly spanContext?: SpanContext }
  | { readonly type: 'stopped' }
  | { readonly type: 'result'; readonly id: number; readonly result: CallResult }
  | {
      readonly type: 'log';
      readonly level: 'debug' | 'info' | 'warn' | 'error';
      readonly fields: Record<string, unknown>;
      readonly text: string;
    }
  | {
      readonly type: 'ask';
      readonly id: number;
      readonly method: string;
      readonly args: readonly unknown[];
      readonly spanContext?: SpanContext;
    }
  | {
      readonly type: 'watch';
      readonly id: number;
      readonly resource: unknown;
      readonly options: unknown;
      readonly spanContext?: SpanContext;
    }
  | { readonly type: 'more' | 'cancel'; readonly id: number };

export interface CallResult {
  readonly value?: unknown;
  /** True if the plugin returned the object unchanged; the object is then not sent back. */
  readonly same?: boolean;
  readonly error?: SerializedError;
  readonly warnings: readonly string[];
  readonly annotations: readonly (readonly [string, string])[];
}

/** Returns options without the signal, which is the only option that cannot be sent between threads. */
export function withoutSignal(options: unknown): unknown {
  if (typeof options !== 'object' || options === null) return options;
  const { signal: _, ...rest } = options as { readonly signal?: unknown };
  return rest;
}

export function serializeError(error: unknown): SerializedError {
  if (!(error instanceof Error)) return { message: String(error) };
  const { status } = error as { readonly status?: Status };
  return { message: error.message, ...(error.stack !== undefined && { stack: error.stack }), ...(status !== undefined && { status }) };
}
