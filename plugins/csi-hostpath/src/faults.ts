import { AsyncLocalStorage } from 'node:async_hooks';
import { existsSync, readFileSync, renameSync, watch, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { GrpcError, type GrpcCode } from '@oarlock/grpc/grpc-error';
import type { Methods } from '@oarlock/grpc/unix-server';

/** A fault that is injected into calls of one method. */
export interface Fault {
  /** The call fails with this code. */
  readonly code?: GrpcCode;
  /** The process kills itself, before the work of the call or after it and before the response. */
  readonly kill?: 'before' | 'after';
  /**
   * The call creates the file `FILE.METHOD` and waits until it is removed: before its work, within it while it holds the lock of its volume,
   * or after it.
   */
  readonly hold?: 'before' | 'within' | 'after';
  /** `caller`: kills the parent process instead, which then receives no response. */
  readonly of?: 'caller';
  /** How many calls the fault applies to; 1 by default. */
  readonly times?: number;
}

/** Injects faults for tests. They are read from a JSON file that may change at any time: `{"NodeStageVolume": {"kill": "after"}}`. A used fault is removed from the file. */
export class Faults {
  readonly #file: string;
  readonly #kill: (of: 'caller' | undefined) => void;
  /** The method whose call holds within its work. */
  readonly #within = new AsyncLocalStorage<string>();

  constructor(
    file: string,
    kill: (of: 'caller' | undefined) => void = (of) => process.kill(of === 'caller' ? process.ppid : process.pid, 'SIGKILL'),
  ) {
    this.#file = file;
    this.#kill = kill;
  }

  /** Wraps methods with the faults of the file. */
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

  /** Called when a call has taken the lock of its volume: holds the call if it has such a fault. */
  async within(): Promise<void> {
    const method = this.#within.getStore();
    if (method !== undefined) await this.#hold(method);
  }

  /** Kills a process. Never resolves: the caller gets no response. */
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
