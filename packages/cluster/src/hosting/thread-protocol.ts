import type { KubeObject } from '@oarlock/api/object';
import type { Status } from '@oarlock/api/status';
import type { Cause } from '@oarlock/kernel/tracing';
import type { AdmissionRule } from '@oarlock/spi/admission';
import type { WatchEvent } from '@oarlock/spi/client';
import type { ClusterFacts } from '@oarlock/spi/cluster';

/** What a thread is started with. */
export interface ThreadData {
  /** What it imports to get the plugin. */
  readonly module: string;
  readonly name: string;
  readonly config: unknown;
  readonly dataDir: string;
  readonly facts: ClusterFacts;
  /** `[0]` is the call whose code runs at this moment, 0 when none does: how the other side tells an endless loop from waiting. */
  readonly running: Int32Array;
}

/** Errors that cross: refusals of the API stay what they are. */
export interface CarriedError {
  readonly message: string;
  readonly stack?: string;
  readonly status?: Status;
}

export type ToThread =
  | { readonly type: 'call'; readonly id: number; readonly method: string; readonly args: readonly unknown[] }
  | { readonly type: 'ping' }
  | { readonly type: 'stop' }
  | { readonly type: 'answer'; readonly id: number; readonly value?: unknown; readonly error?: CarriedError }
  | { readonly type: 'events'; readonly id: number; readonly events: readonly WatchEvent<KubeObject>[] }
  | { readonly type: 'watched'; readonly id: number; readonly error?: CarriedError };

export type FromThread =
  | { readonly type: 'ready'; readonly methods: readonly string[]; readonly matches: readonly AdmissionRule[] }
  | { readonly type: 'refused'; readonly error: CarriedError }
  | { readonly type: 'pong' }
  | { readonly type: 'stopped' }
  | { readonly type: 'result'; readonly id: number; readonly result: Result }
  | {
      readonly type: 'log';
      readonly level: 'debug' | 'info' | 'warn' | 'error';
      readonly fields: Record<string, unknown>;
      readonly text: string;
    }
  | { readonly type: 'ask'; readonly id: number; readonly method: string; readonly args: readonly unknown[]; readonly cause?: Cause }
  | { readonly type: 'watch'; readonly id: number; readonly resource: unknown; readonly options: unknown; readonly cause?: Cause }
  | { readonly type: 'more' | 'cancel'; readonly id: number };

export interface Result {
  readonly value?: unknown;
  /** The object that came back is the one that was sent. */
  readonly same?: boolean;
  readonly error?: CarriedError;
  readonly warnings: readonly string[];
  readonly annotations: readonly (readonly [string, string])[];
}

/** Functions and signals do not cross between threads; nothing else of options does not. */
export function withoutSignal(options: unknown): unknown {
  if (typeof options !== 'object' || options === null) return options;
  const { signal: _, ...rest } = options as { readonly signal?: unknown };
  return rest;
}

export function carried(error: unknown): CarriedError {
  if (!(error instanceof Error)) return { message: String(error) };
  const { status } = error as { readonly status?: Status };
  return { message: error.message, ...(error.stack !== undefined && { stack: error.stack }), ...(status !== undefined && { status }) };
}
