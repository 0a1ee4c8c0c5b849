import { causeOf, failSpan, startSpan } from '@oarlock/kernel/tracing';
import { failed } from '@oarlock/spi/scheduling';
import type { Extender } from './extender.ts';
import { bind, passes, preBind, unreserve, willPreBind, type Refused } from './framework.ts';
import type { HeldPods } from './held-pods.ts';
import { failureOf, reasonsOf, type CycleParts, type Failed, type Placed } from './scheduling-cycle.ts';

interface BindingParts extends Pick<CycleParts, 'tracer' | 'metrics' | 'clock' | 'extenders'> {
  readonly parallelBinds: number;
  readonly held: HeldPods;
  /** It will take a while until the pod is bound: others shall know where it goes. Resolves when that is written, or cannot be. */
  announce(placed: Placed): Promise<void>;
  bound(placed: Placed): void;
  /** An undefined `failure`: it was broken off. */
  failed(placed: Placed, failure: Failed['failure'] | undefined, announced: boolean): void;
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
    let permitted = true;
    let announced = false;
    try {
      const context = { cause: causeOf(span), signal };
      const held = placed.holds && this.#parts.held.hold(waiting, node, placed.holds, signal);
      announced = held !== undefined || willPreBind(framework, cycle, waiting, node);
      if (announced) await this.#parts.announce(placed);
      refused = await held;
      permitted = refused === undefined;
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
      this.#parts.failed(placed, signal.aborted ? undefined : failureOf(refused, !permitted), announced);
    }
    span.end();
  }

  async #write({ waiting, node }: Placed, bindByPlugin: () => Promise<Refused>, signal: AbortSignal): Promise<Refused | undefined> {
    const extender = this.#parts.extenders.find((each) => each.binds && each.isInterested(waiting.pod));
    this.#writing += 1;
    try {
      if (extender !== undefined && (await bound(extender, waiting, node, signal))) return undefined;
      const outcome = await bindByPlugin();
      return passes(outcome) ? undefined : outcome;
    } finally {
      this.#writing -= 1;
      this.#roomy?.();
      this.#roomy = undefined;
    }
  }
}

/** False: it could not, and can be done without. @throws Error when it could not and cannot */
async function bound(extender: Extender, { pod }: Placed['waiting'], node: string, signal: AbortSignal): Promise<boolean> {
  try {
    await extender.bind(pod, node, signal);
    return true;
  } catch (error) {
    if (extender.ignorable) return false;
    throw error;
  }
}
