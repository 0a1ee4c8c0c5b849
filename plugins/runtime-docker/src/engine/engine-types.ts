import type { Labels } from './names-and-labels.ts';

// The fields of the engine's responses that are used (Docker Engine API 1.41).

export interface EngineContainer {
  readonly Id: string;
  readonly Name: string;
  readonly Created: string;
  readonly State: {
    readonly Status: 'created' | 'running' | 'paused' | 'restarting' | 'removing' | 'exited' | 'dead';
    readonly Running: boolean;
    readonly OOMKilled: boolean;
    readonly Pid: number;
    readonly ExitCode: number;
    readonly Error: string;
    readonly StartedAt: string;
    readonly FinishedAt: string;
  };
  readonly Config: { readonly Labels: Labels | null; readonly Tty: boolean };
  readonly HostConfig: { readonly NetworkMode: string; readonly Runtime: string };
  readonly Mounts: readonly {
    readonly Type: string;
    readonly Source: string;
    readonly Destination: string;
    readonly RW: boolean;
    readonly Propagation: string;
  }[];
  readonly ResolvConfPath: string;
  readonly NetworkSettings: { readonly SandboxKey: string };
  readonly GraphDriver: { readonly Data: { readonly UpperDir?: string } | null };
}

export interface ListedContainer {
  readonly Id: string;
  readonly Names: readonly string[];
  readonly Created: number;
  readonly State: EngineContainer['State']['Status'];
  readonly Labels: Labels | null;
  readonly HostConfig?: { readonly NetworkMode?: string };
}

export interface EngineImage {
  readonly Id: string;
  readonly RepoTags: readonly string[] | null;
  readonly RepoDigests: readonly string[] | null;
  readonly Size: number;
  /** The config of the container; present only in an inspection. */
  readonly Config?: { readonly User?: string } | null;
}

export interface EngineEvent {
  readonly Action: string;
  readonly Actor: { readonly ID: string; readonly Attributes: Labels };
  readonly timeNano: number;
}

export interface EngineInfo {
  readonly ServerVersion: string;
  readonly DockerRootDir: string;
  readonly CgroupDriver: string;
  readonly KernelVersion: string;
  readonly DefaultRuntime: string;
  /** The OCI runtimes, keyed by the name that a container requests. */
  readonly Runtimes: Readonly<Record<string, object>> | null;
}

export interface EngineStats {
  readonly read: string;
  readonly cpu_stats: { readonly cpu_usage?: { readonly total_usage?: number } };
  readonly memory_stats: { readonly usage?: number; readonly stats?: Readonly<Record<string, number>> };
}

/** Returns true for the engine's unset timestamp, `0001-01-01T00:00:00Z`. */
export const isZeroTime = (time: string): boolean => time.startsWith('0001-');
