import { AsyncLocalStorage } from 'node:async_hooks';
import { existsSync, readFileSync, renameSync, watch, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { GrpcError, type GrpcCode } from '@oarlock/grpc/grpc-error';
import type { Methods } from '@oarlock/grpc/unix-server';

/** A fault that is injected into calls of one method. */
export interface Fault {
  /** The CSI call fails with this gRPC code. */
  readonly code?: GrpcCode;
  /** The process kills itself: `before` the CSI call is handled, or `after` the handler returned and before the response is sent. */
  readonly kill?: 'before' | 'after';
  /**
   * The CSI call creates the file `FILE.METHOD` and waits until that file is removed: `before` the handler runs, `within` the handler while the
   * handler holds the lock of the volume, or `after` the handler.
   */
  readonly hold?: 'before' | 'within' | 'after';
  /** `caller` kills the parent process instead of this process. The parent process then receives no response. */
  readonly of?: 'caller';
  /** The number of CSI calls that the fault applies to; 1 by default. */
  readonly times?: number;
}

/**
 * Injects faults into CSI calls for tests. Each call reads the faults from a JSON file, which tests may change at any time, such as
 * `{"NodeStageVolume": {"kill": "after"}}`. The file keeps a fault until the fault has been injected `times` times.
 */
export class Faults {
  readonly #file: string;
  readonly #kill: (of: 'caller' | undefined) => void;
  /** The name of the CSI method whose call waits while it holds the lock of its volume. */
  readonly #within = new AsyncLocalStorage<string>();

  constructor(
    file: string,
    kill: (of: 'caller' | undefined) => void = (of) => process.kill(of === 'caller' ? process.ppid : process.pid, 'SIGKILL'),
  ) {
    this.#file = file;
    this.#kill = kill;
  }

  /** Returns handlers that inject the faults of the file into the given handlers. */
  around(methods: Methods): Methods {
    return Object.fromEntries(
      Object.entries(methods).map(([method, handler]) => [
        method,
        async (request: never) => {
          const fault = this.#take(method);
          if (fault?.code !== undefined) throw new GrpcError(fault.code, `injected fault of ${method}`);
          if (fault?.kill === 'before') await this.#end(fault);
          if (fault?.hold === 'before') await this.#hold(method);
          const response = await (fault?.hold === 'within' ? this.#within.run(method, () => handler(request)) : handler(request));
          if (fault?.kill === 'after') await this.#end(fault);
          if (fault?.hold === 'after') await this.#hold(method);
          return response;
        },
      ]),
    );
  }

  /** Waits as the fault demands if the current CSI call has a fault with `hold: 'within'`. The handler calls it while it holds the volume's lock. */
  async within(): Promise<void> {
    const method = this.#within.getStore();
    if (method !== undefined) await this.#hold(method);
  }

  /** Kills this process or its parent. Never resolves, so that the caller gets no response. */
  #end({ of }: Fault): Promise<never> {
    this.#kill(of);
    return new Promise(() => {});
  }

  #hold(method: string): Promise<void> {
    const mark = `${this.#file}.${method}`;
    return new Promise((resolve, reject) => {
      const watcher = watch(dirname(mark), () => {
        if (existsSync(mark)) return;
        watcher.close();
        resolve();
      });
      watcher.on('error', reject);
      writeFileSync(mark, '');
    });
  }

  #take(method: string): Fault | undefined {
    const { [method]: fault, ...others } = this.#read();
    if (fault === undefined) return undefined;
    const remaining = (fault.times ?? 1) - 1;
    writeFileSync(`${this.#file}.next`, JSON.stringify(remaining > 0 ? { ...others, [method]: { ...fault, times: remaining } } : others));
    renameSync(`${this.#file}.next`, this.#file);
    return fault;
  }

  #read(): Readonly<Record<string, Fault>> {
    try {
      return JSON.parse(readFileSync(this.#file, 'utf8')) as Record<string, Fault>;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {};
      throw error;
    }
  }
}
