import type { ContainerConfig } from '@oarlock/spi/runtime';
import type { Cgroup } from '../host/cgroups.ts';
import type { SandboxRecord } from '../protocol/supervisor-protocol.ts';
import type { ContainerProcess } from './container-process.ts';
import type { ContainerRecord } from './pod-store.ts';

export interface SandboxContainer {
  readonly record: ContainerRecord;
  readonly sandbox: SandboxRecord;
}
export interface StartedContainer {
  readonly process: ContainerProcess;
  readonly cgroup: Cgroup | undefined;
  /** What `exec` and `adopt` need to know about the container. */
  readonly data: Partial<Pick<ContainerRecord, 'namespaces' | 'isolation' | 'cgroup' | 'user'>>;
}
/** A container of an earlier supervisor: its process if it still runs, otherwise how it ended. */
export type AdoptedContainer =
  | { readonly process: ContainerProcess; readonly cgroup: Cgroup | undefined }
  | { readonly exitCode: number; readonly reason: string; readonly message?: string; readonly finishedAt?: number };
export interface ExecCommand {
  readonly command: readonly string[];
  readonly tty: boolean;
  readonly stdin: boolean;
}

/** How a runtime runs the processes of containers. The supervisor calls it, in the order of a container's life. Errors are SupervisorErrors. */
export interface ContainerLauncher {
  /** Checks a config before the container is created. @throws SupervisorError */
  check(config: ContainerConfig): void;
  /** Starts the command of a container. Resolves when it runs; leaves nothing behind when it fails. */
  start(container: SandboxContainer): Promise<StartedContainer>;
  /** Starts another process in a running container, with the container's environment, user, namespaces and limits. */
  exec(
    container: SandboxContainer,
    running: ContainerProcess,
    command: ExecCommand & { readonly cgroup: Cgroup | undefined },
  ): Promise<ContainerProcess>;
  /** Finds or ends the processes of a container that was running when an earlier supervisor ended. */
  adopt(container: SandboxContainer, rebooted: boolean): AdoptedContainer;
  /** Kills processes that left the process group of a container. */
  sweep(record: ContainerRecord): Promise<void>;
  /** Removes what only a running container needs. Called after its exit was reported. */
  ended(container: SandboxContainer, cgroup: Cgroup | undefined): Promise<void>;
  /** Removes the rest, before the record. */
  removed(record: ContainerRecord): Promise<void>;
  /** Begins to prepare what the containers of a new sandbox will share, while its network is connected. A failure is reported by `start`. */
  sandboxCreated(sandbox: SandboxRecord): void;
  /** Removes what the containers of a sandbox share. No process runs or will run in the sandbox. */
  sandboxStopped(sandbox: SandboxRecord): Promise<void>;
}
