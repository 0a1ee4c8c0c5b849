import { causeOf, failSpan, startSpan } from '@oarlock/kernel/tracing';
import { failed } from '@oarlock/spi/scheduling';
import { bind, passes, preBind, unreserve, type Refused } from './framework.ts';
import type { HeldPods } from './held-pods.ts';
import { failureOf, reasonsOf, type CycleParts, type Failed, type Placed } from './scheduling-cycle.ts';

interface BindingParts extends Pick<CycleParts, 'tracer' | 'metrics' | 'clock' | 'extenders'> {
  readonly parallelBinds: number;
  readonly held: HeldPods;
  bound(placed: Placed): void;
  /** Undefined: it was broken off. */
  failed(placed: Placed, failure: Failed['failure'] | undefined): void;
}

/** Binds pods that have their node, while others are being scheduled: permit's wait, preBind, bind, postBind. */
export class BindingCycle {
  readonly #parts: BindingParts;
  readonly #running = new Set<Promise<void>>();
  #writing = 0;
  #roomy: (() => void) | undefined;

  constructor(parts: BindingParts) {
    this.#parts = parts;
  }

  begin(placed: Placed, signal: AbortSignal): void {
    const task: Promise<void> = this.#run(placed, signal).finally(() => this.#running.delete(task));
    this.#running.add(task);
  }

  /** Until fewer bindings are being written than may be. Who waits for something else does not count. */
  room(): Promise<void> | undefined {
    if (this.#writing < this.#parts.parallelBinds) return undefined;
    return new Promise((resolve) => {
      this.#roomy = resolve;
    });
  }

  async settled(): Promise<void> {
    await Promise.all(this.#running);
  }

  async #run(placed: Placed, signal: AbortSignal): Promise<void> {
    const { tracer, metrics, clock } = this.#parts;
    const { waiting, node, cycle, profile, cause, began } = placed;
    const { framework, schedulerName } = profile;
    const span = startSpan(tracer, 'bind', { cause, attributes: { 'oarlock.key': waiting.key, 'oarlock.node': node } });
    let refused: Refused | undefined;
    try {
      const context = { cause: causeOf(span), signal };
      if (placed.holds !== undefined) refused = await this.#parts.held.hold(waiting, node, placed.holds, signal);
      refused ??= await preBind(framework, cycle, waiting, node, context);
      refused ??= await this.#write(placed, () => bind(framework, cycle, waiting, node, context), signal);
    } catch (error) {
      refused = failed((error as Error).message);
    }
    if (refused === undefined) {
      metrics.attempt('scheduled', schedulerName, clock.monotonic() - began);
      this.#parts.bound(placed);
      for (const plugin of framework.at('postBind')) plugin.postBind?.(cycle, waiting, node);
    } else {
      failSpan(span, reasonsOf(refused));
      metrics.attempt('error', schedulerName, clock.monotonic() - began);
      unreserve(framework, cycle, waiting, node);
      this.#parts.failed(placed, signal.aborted ? undefined : failureOf(refused));
    }
    span.end();
  }

  async #write({ waiting, node }: Placed, bindByPlugin: () => Promise<Refused>, signal: AbortSignal): Promise<Refused | undefined> {
    const extender = this.#parts.extenders.find((each) => each.binds && each.isInterested(waiting.pod));
    this.#writing += 1;
    try {
      if (extender !== undefined) {
        await extender.bind(waiting.pod, node, signal);
        return undefined;
      }
      const outcome = await bindByPlugin();
      return passes(outcome) ? undefined : outcome;
    } finally {
      this.#writing -= 1;
      this.#roomy?.();
      this.#roomy = undefined;
    }
  }
}
