import { AsyncLocalStorage } from 'node:async_hooks';
import { existsSync, readFileSync, renameSync, watch, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { GrpcError, type GrpcCode } from '@oarlock/grpc/grpc-error';
import type { Methods } from '@oarlock/grpc/unix-server';

/** What is to happen to calls of one method. */
export interface Fault {
  /** The call is refused with this. */
  readonly code?: GrpcCode;
  /** The process kills itself: before anything is done, or after all is done and before the answer. */
  readonly kill?: 'before' | 'after';
  /**
   * The call waits for as long as the file `FILE.METHOD` is there, which it makes: before anything is done, within, when no other may begin for
   * the same thing, or after all is done.
   */
  readonly hold?: 'before' | 'within' | 'after';
  /** `caller`: what is killed is what has started this process, which is then never answered. */
  readonly of?: 'caller';
  /** How many calls it happens to; 1 by default. */
  readonly times?: number;
}

/** Faults for tests, from a file of JSON that may change at any time: `{"NodeStageVolume": {"kill": "after"}}`. Each is taken out when it has happened. */
export class Faults {
  readonly #file: string;
  readonly #kill: (of: 'caller' | undefined) => void;
  /** The method that is held within. */
  readonly #within = new AsyncLocalStorage<string>();

  constructor(
    file: string,
    kill: (of: 'caller' | undefined) => void = (of) => process.kill(of === 'caller' ? process.ppid : process.pid, 'SIGKILL'),
  ) {
    this.#file = file;
    this.#kill = kill;
  }

  /** The same methods, with what is to go wrong about them. */
  around(methods: Methods): Methods {
    return Object.fromEntries(
      Object.entries(methods).map(([method, answer]) => [
        method,
        async (request: never) => {
          const fault = this.#take(method);
          if (fault?.code !== undefined) throw new GrpcError(fault.code, `${method} is to fail, a file says`);
          if (fault?.kill === 'before') await this.#end(fault);
          if (fault?.hold === 'before') await this.#held(method);
          const response = await (fault?.hold === 'within' ? this.#within.run(method, () => answer(request)) : answer(request));
          if (fault?.kill === 'after') await this.#end(fault);
          if (fault?.hold === 'after') await this.#held(method);
          return response;
        },
      ]),
    );
  }

  /** Where a call has begun and nobody else may: waits when it is to be held there. */
  async within(): Promise<void> {
    const method = this.#within.getStore();
    if (method !== undefined) await this.#held(method);
  }

  /** Nobody gets an answer any more. */
  #end({ of }: Fault): Promise<never> {
    this.#kill(of);
    return new Promise(() => {});
  }

  #held(method: string): Promise<void> {
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
    const left = (fault.times ?? 1) - 1;
    writeFileSync(`${this.#file}.next`, JSON.stringify(left > 0 ? { ...others, [method]: { ...fault, times: left } } : others));
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
