import type {
  ContainerConfig,
  ContainerStats,
  ContainerStatus,
  LinuxResources,
  PodSandboxConfig,
  PodSandboxStatus,
  RuntimeErrorCode,
  RuntimeEvent,
} from '@oarlock/spi/runtime';

/**
 * What driver and supervisor say to each other over a unix socket. The first line of every connection is a `Hello`; the answer is
 * a `Welcome`. A control connection goes on with JSON, a line per message, each request answered once, in any order, and
 * events in between. A session (exec, attach, port forward) goes on with frames, see `frames.ts`, and ends with its connection.
 */
export const protocolVersion = 1;

export type Hello =
  | { readonly protocol: number; readonly role: 'control' }
  | { readonly protocol: number; readonly role: 'session'; readonly session: SessionRequest };
export type Welcome = { readonly welcome: SupervisorInfo } | { readonly ending: true } | Refused;
export interface Refused {
  readonly error: { readonly code: RuntimeErrorCode; readonly message: string };
}

export interface SupervisorInfo {
  readonly protocol: number;
  readonly pid: number;
  /** What containers do not have on this machine, for people. */
  readonly notes: readonly string[];
}

export type SessionRequest =
  | {
      readonly kind: 'exec';
      readonly containerId: string;
      readonly command: readonly string[];
      readonly tty: boolean;
      readonly stdin: boolean;
    }
  | { readonly kind: 'attach'; readonly containerId: string; readonly stdin: boolean; readonly stdout: boolean; readonly stderr: boolean }
  /** To 127.0.0.1, then ::1, inside the sandbox's network namespace. */
  | { readonly kind: 'forward'; readonly sandboxId: string; readonly port: number };

/** A sandbox as it is kept. */
export interface SandboxRecord extends PodSandboxStatus {
  readonly config: PodSandboxConfig;
  /** The path of its network namespace; absent when it shares the host's. */
  readonly netns?: string;
  /** Changes when the machine starts anew. */
  readonly boot: string;
}

/** Requests: what goes in, what comes out. */
export interface Calls {
  'sandbox.create': {
    in: {
      readonly id: string;
      readonly config: PodSandboxConfig;
      readonly ips: readonly string[];
      readonly netns?: string;
      readonly ready: boolean;
    };
    out: SandboxRecord;
  };
  'sandbox.ready': { in: { readonly id: string; readonly ips: readonly string[] }; out: null };
  'sandbox.get': { in: { readonly id: string }; out: SandboxRecord };
  'sandbox.list': { in: Record<string, never>; out: readonly SandboxRecord[] };
  /** Ends its containers, with grace when there is one. Null when there is no such sandbox. */
  'sandbox.stop': { in: { readonly id: string; readonly graceMs: number }; out: SandboxRecord | null };
  'sandbox.remove': { in: { readonly id: string }; out: null };
  'container.create': { in: { readonly sandboxId: string; readonly config: ContainerConfig }; out: string };
  'container.start': { in: { readonly id: string }; out: null };
  'container.stop': { in: { readonly id: string; readonly graceMs: number }; out: null };
  'container.remove': { in: { readonly id: string }; out: null };
  'container.get': { in: { readonly id: string }; out: ContainerStatus };
  'container.list': { in: { readonly sandboxId?: string }; out: readonly ContainerStatus[] };
  'container.update': { in: { readonly id: string; readonly resources: LinuxResources }; out: null };
  'container.reopenLog': { in: { readonly id: string }; out: null };
  /** Of those that run; of one only when `id` says so. */
  'container.stats': { in: { readonly id?: string; readonly sandboxId?: string }; out: readonly ContainerStats[] };
  /** The supervisor answers, then ends. Refused while containers run. */
  shutdown: { in: Record<string, never>; out: null };
}
export type CallName = keyof Calls;

export interface Request {
  readonly id: number;
  readonly call: CallName;
  readonly args: unknown;
}
export type Response = { readonly id: number; readonly result: unknown } | ({ readonly id: number } & Refused);
export type FromSupervisor = Response | { readonly event: RuntimeEvent };

/** A refusal on its way from the supervisor to the driver, which throws it as `RuntimeError`. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly code: RuntimeErrorCode;
  constructor(code: RuntimeErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** A message is at most this long, in bytes: a container's config with the largest environment the API takes is far smaller. */
export const longestLine = 16 * 1024 * 1024;

/** Cuts a stream of bytes into lines. @throws RangeError when one is longer than `longestLine` */
export class Lines {
  #rest: Buffer[] = [];
  #length = 0;

  /** The lines that are complete now, without their newlines. */
  push(chunk: Buffer): string[] {
    const lines: string[] = [];
    let start = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
      this.#rest.push(chunk.subarray(start, end));
      lines.push(Buffer.concat(this.#rest).toString('utf8'));
      this.#rest = [];
      this.#length = 0;
      start = end + 1;
    }
    if (start < chunk.length) {
      this.#rest.push(chunk.subarray(start));
      this.#length += chunk.length - start;
      if (this.#length > longestLine) throw new RangeError('a message is longer than 16 MiB');
    }
    return lines;
  }

  /** What came behind the last newline. */
  take(): Buffer {
    const rest = Buffer.concat(this.#rest);
    this.#rest = [];
    this.#length = 0;
    return rest;
  }
}
