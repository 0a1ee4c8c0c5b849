import { RuntimeError, type PodIsolation } from '@oarlock/spi/runtime';
import { probeIsolation } from './containers/isolation-probe.ts';
import { findTools } from './host/host-tools.ts';
import { hiddenDirectories, type Isolation } from './isolation/isolation.ts';
import type { SupervisorClient } from './supervisor-client.ts';
import type { SupervisorOptions } from './supervisor.ts';

const outdatedSupervisor: Isolation = { mode: 'none', reason: 'the supervisor of the pods was started by a release without isolation' };

/** Determines whether pods are isolated: by the supervisor if one runs, otherwise by the one that the first pod will start. */
export class IsolationStatus {
  readonly #options: SupervisorOptions;
  readonly #supervisor: Pick<SupervisorClient, 'info'>;
  #probed: Promise<Isolation> | undefined;

  constructor(options: SupervisorOptions, supervisor: Pick<SupervisorClient, 'info'>) {
    this.#options = options;
    this.#supervisor = supervisor;
  }

  /** Resolves when no probe runs. */
  get probed(): Promise<unknown> {
    return this.#probed ?? Promise.resolve();
  }

  /** Starts the probe without waiting for its result. */
  startProbe(): void {
    this.#probed ??= this.#probe();
  }

  async status(): Promise<PodIsolation> {
    const { info } = this.#supervisor;
    const found = info ? (info.isolation ?? outdatedSupervisor) : await (this.#probed ??= this.#probe());
    return found.mode === 'none' ? { enforced: false, reason: found.reason } : { enforced: true, reason: '' };
  }

  /** Checks the isolation. @throws RuntimeError `FailedPrecondition` if the configuration requires isolation and pods cannot be isolated */
  async verify(): Promise<void> {
    if (this.#options.isolation !== 'required') return;
    const { enforced, reason } = await this.status();
    if (!enforced)
      throw new RuntimeError('FailedPrecondition', `pods cannot be isolated, which \`isolation: required\` demands: ${reason}`);
  }

  async #probe(): Promise<Isolation> {
    const { dataDir, isolation, namespaces } = this.#options;
    const hidden = hiddenDirectories(this.#options);
    return probeIsolation({ tools: await findTools({ namespaces }), hidden, dataDir, isolation, namespaces });
  }
}
