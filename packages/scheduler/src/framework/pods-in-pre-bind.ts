import type { Handle } from '@oarlock/spi/scheduling';
import type { PluginStatus } from './plugin-status.ts';

type PodInPreBind = NonNullable<ReturnType<Handle['podInPreBind']>>;

/** Assumed pods in the preBind phase. A pod of higher priority can cancel the binding of such a pod instead of deleting it. */
export class PodsInPreBind {
  readonly #pods = new Map<string, PodInPreBind>();

  get(key: string): PodInPreBind | undefined {
    return this.#pods.get(key);
  }

  /**
   * Runs the preBind phase of a pod with a signal that also aborts when the binding is canceled. Resolves with the rejection, or undefined if the
   * pod can be bound. The phase of a canceled pod must end before the pod can be retried, and its own result does not count.
   */
  async run(
    key: string,
    signal: AbortSignal,
    preBind: (signal: AbortSignal) => Promise<PluginStatus | undefined>,
  ): Promise<PluginStatus | undefined> {
    const controller = new AbortController();
    let reason: string | undefined;
    const pod: PodInPreBind = {
      cancel(text) {
        reason ??= text;
        controller.abort(new Error(text));
      },
    };
    this.#pods.set(key, pod);
    // without a plugin, whose events the pod would wait for
    const canceled = (): PluginStatus | undefined => (reason === undefined ? undefined : { code: 'unschedulable', reasons: [reason] });
    try {
      const rejection = await preBind(AbortSignal.any([signal, controller.signal]));
      return canceled() ?? rejection;
    } catch (error) {
      const rejection = canceled();
      if (rejection === undefined) throw error;
      return rejection;
    } finally {
      if (this.#pods.get(key) === pod) this.#pods.delete(key);
    }
  }
}
