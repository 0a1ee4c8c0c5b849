import type { Logger } from '@oarlock/primitives/logger';
import type {
  AdoptedContainer,
  ContainerLauncher,
  ExecCommand,
  SandboxContainer,
  StartedContainer,
} from '@oarlock/process-supervisor/containers/container-launcher';
import type { ContainerProcess } from '@oarlock/process-supervisor/containers/container-process';
import { cgroupPath } from '@oarlock/process-supervisor/containers/containers';
import type { ContainerRecord } from '@oarlock/process-supervisor/containers/pod-store';
import { ProcessGroup } from '@oarlock/process-supervisor/containers/process-group';
import type { StrayProcessSweeper } from '@oarlock/process-supervisor/containers/stray-process-sweeper';
import type { Cgroup, CgroupManager } from '@oarlock/process-supervisor/host/cgroups';
import { startTime } from '@oarlock/process-supervisor/host/process-table';
import { SupervisorError } from '@oarlock/process-supervisor/protocol/supervisor-protocol';
import type { ContainerConfig } from '@oarlock/spi/runtime';
import { credentialsOf } from './internal/container-environment.ts';
import { launchOfExec, launchOfStart, type LaunchContext } from './internal/container-launch.ts';

export interface ProcessLauncherOptions extends LaunchContext {
  readonly cgroups: CgroupManager | undefined;
  readonly sweeper: StrayProcessSweeper;
  readonly log: Logger;
  readonly nice: number;
}

/** 128 + SIGKILL. */
const sigkillExitCode = 137;

/** Runs the commands of containers as process groups of this host. */
export class ProcessLauncher implements ContainerLauncher {
  readonly #options: ProcessLauncherOptions;
  constructor(options: ProcessLauncherOptions) {
    this.#options = options;
  }

  check(config: ContainerConfig): void {
    const { tools } = this.#options.host;
    if (config.command.length === 0 && config.args.length === 0)
      throw new SupervisorError('InvalidArgument', 'no command specified: the image "host" has no default command');
    if (config.tty && tools.script === undefined)
      throw new SupervisorError('Unsupported', "terminals are not supported for process containers: util-linux's script is not installed");
    credentialsOf(config, tools);
  }

  async start(container: SandboxContainer): Promise<StartedContainer> {
    const { host, nice, cgroups } = this.#options;
    const { stdin, linux } = container.record.config;
    let cgroup: Cgroup | undefined;
    const path = cgroups && cgroupPath(container);
    try {
      if (path !== undefined) {
        cgroup = cgroups?.make(path);
        cgroup?.apply(linux.resources);
      }
      const { launch, namespaces, isolation } = launchOfStart({ ...container, cgroups: cgroup?.entries ?? [] }, this.#options);
      const { oomScoreAdj } = linux.resources;
      const group = await ProcessGroup.start(launch, host, {
        stdin,
        nice,
        ...(oomScoreAdj !== undefined && { oomScoreAdjust: oomScoreAdj }),
      });
      return { process: group, cgroup, data: { namespaces, ...(isolation && { isolation }), ...(path !== undefined && { cgroup: path }) } };
    } catch (error) {
      await cgroup?.remove();
      throw error;
    }
  }

  async exec(
    container: SandboxContainer,
    running: ContainerProcess,
    { command, tty, stdin, cgroup }: ExecCommand & { readonly cgroup: Cgroup | undefined },
  ): Promise<ContainerProcess> {
    if (!(running instanceof ProcessGroup)) throw new SupervisorError('Internal', 'the container has no process group');
    const launch = launchOfExec({ ...container, cgroups: cgroup?.entries ?? [] }, this.#options, { command, tty, group: running });
    return ProcessGroup.start(launch, this.#options.host, { stdin, nice: this.#options.nice });
  }

  /** Kills the processes: they have lost their streams and their parent. */
  adopt({ record }: SandboxContainer, rebooted: boolean): AdoptedContainer {
    const { cgroups, sweeper, log } = this.#options;
    if (!rebooted && record.pid !== undefined && startTime(record.pid) === record.pidStarted) {
      try {
        process.kill(-record.pid, 'SIGKILL');
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
      }
    }
    const group = record.cgroup === undefined ? undefined : cgroups?.find(record.cgroup);
    group?.kill();
    void group?.remove().catch((error: unknown) => log.warn({ error: String(error) }, 'cannot remove the control group of a container'));
    sweeper.sweep(record.id).catch((error: unknown) => log.error({ error: String(error) }, 'cannot look for stray processes'));
    return { exitCode: sigkillExitCode, reason: 'Error', message: 'the supervisor process of this container ended' };
  }

  sweep({ id }: ContainerRecord): Promise<void> {
    return this.#options.sweeper.sweep(id);
  }

  async ended({ record: { id } }: SandboxContainer, cgroup: Cgroup | undefined): Promise<void> {
    void this.#options.sweeper
      .sweepSoon(id)
      .catch((error: unknown) => this.#options.log.warn({ error: String(error), container: id }, 'cannot look for stray processes'));
    await cgroup?.remove();
  }

  async removed(): Promise<void> {}
  sandboxCreated(): void {}
  async sandboxStopped(): Promise<void> {}
}
