import { RuntimeError, type PodIsolation } from '@oarlock/spi/runtime';
import { probeIsolation } from './containers/isolation-probe.ts';
import { findTools } from '@oarlock/process-supervisor/host/host-tools';
import type { Isolation } from '@oarlock/process-supervisor/protocol/isolation';
import { hiddenDirectories } from './isolation/isolation.ts';
import type { SupervisorClient } from '@oarlock/process-supervisor/client/supervisor-client';
import type { SupervisorOptions } from './supervisor.ts';

const outdatedSupervisor: Isolation = {
  mode: 'none',
  reason: 'the supervisor of the pods was started by a release without isolation',
  mountsVolumes: true,
};

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
    const found = await this.#isolation();
    if (found.mode !== 'none') return { enforced: true, reason: '' };
    const { reason, mountsVolumes } = found;
    return {
      enforced: false,
      reason: mountsVolumes === false ? `${reason}; volumes are not mounted but linked below $OARLOCK_ROOT` : reason,
    };
  }

  /** Checks the isolation. @throws RuntimeError `FailedPrecondition` if the configuration requires isolation and pods cannot be isolated */
  async verify(): Promise<void> {
    if (this.#options.isolation !== 'required') return;
    const found = await this.#isolation();
    if (found.mode === 'none')
      throw new RuntimeError('FailedPrecondition', `pods cannot be isolated, which \`isolation: required\` demands: ${found.reason}`);
  }

  async #isolation(): Promise<Isolation> {
    const { info } = this.#supervisor;
    return info ? (info.isolation ?? outdatedSupervisor) : (this.#probed ??= this.#probe());
  }

  async #probe(): Promise<Isolation> {
    const { dataDir, isolation, namespaces } = this.#options;
    const hidden = hiddenDirectories(this.#options);
    return probeIsolation({ tools: await findTools({ namespaces }), hidden, dataDir, isolation, namespaces });
  }
}
