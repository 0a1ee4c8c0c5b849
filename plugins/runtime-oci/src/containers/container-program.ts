import type { SandboxContainer } from '@oarlock/process-supervisor/containers/container-launcher';
import type { Cgroup } from '@oarlock/process-supervisor/host/cgroups';
import type { RuntimeSpec, SpecProcess } from '../spec/runtime-spec.ts';
import type { OciProcess } from './oci-process.ts';

export interface ProgramContainer extends SandboxContainer {
  /** Directory of the container's files. */
  readonly directory: string;
}
export interface StartedProgram {
  readonly process: OciProcess;
  readonly cgroup: Cgroup | undefined;
}
export interface ExecTarget {
  /** The first process of the container. */
  readonly pid: number;
  readonly cgroup: Cgroup | undefined;
  readonly stdin: boolean;
}

/** A way to run containers that an OCI configuration describes. Errors are SupervisorErrors. */
export interface ContainerProgram {
  /** Starts the command of a container. Its process, and the process that keeps its exit code, outlive the supervisor. */
  run(container: ProgramContainer, spec: RuntimeSpec): Promise<StartedProgram>;
  /** Starts another process in a container. */
  exec(container: ProgramContainer, process: SpecProcess, target: ExecTarget): Promise<OciProcess>;
  /** Removes what is left of a container that has ended. Succeeds if there is nothing. */
  delete(container: ProgramContainer, cgroup: Cgroup | undefined): Promise<void>;
}
