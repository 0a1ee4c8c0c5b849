// The part of the OCI runtime specification (config.md) that this runtime writes.

export interface SpecMount {
  readonly destination: string;
  readonly type: string;
  readonly source: string;
  readonly options: readonly string[];
}
export interface SpecUser {
  readonly uid: number;
  readonly gid: number;
  readonly additionalGids: readonly number[];
}
export interface SpecProcess {
  readonly terminal: boolean;
  readonly user: SpecUser;
  readonly args: readonly string[];
  readonly env: readonly string[];
  readonly cwd: string;
  readonly capabilities: SpecCapabilities;
  readonly noNewPrivileges: boolean;
  readonly oomScoreAdj?: number;
  readonly apparmorProfile?: string;
}
export interface SpecCapabilities {
  readonly bounding: readonly string[];
  readonly effective: readonly string[];
  readonly permitted: readonly string[];
}
export interface SpecNamespace {
  readonly type: 'pid' | 'network' | 'ipc' | 'uts' | 'mount' | 'cgroup';
  readonly path?: string;
}
export interface SpecDevice {
  readonly path: string;
  readonly type: 'c' | 'b';
  readonly major: number;
  readonly minor: number;
  readonly fileMode: number;
  readonly uid: number;
  readonly gid: number;
}
export interface SpecDeviceRule {
  readonly allow: boolean;
  readonly access: string;
  readonly type?: 'a' | 'c' | 'b';
  readonly major?: number;
  readonly minor?: number;
}
export interface SpecResources {
  readonly devices: readonly SpecDeviceRule[];
  readonly memory?: { readonly limit?: number; readonly swap?: number };
  readonly cpu?: {
    readonly shares?: number;
    readonly quota?: number;
    readonly period?: number;
    readonly cpus?: string;
    readonly mems?: string;
  };
  readonly hugepageLimits?: readonly { readonly pageSize: string; readonly limit: number }[];
  readonly unified?: Readonly<Record<string, string>>;
}
export interface SeccompRule {
  readonly names: readonly string[];
  readonly action: string;
  readonly errnoRet?: number;
  readonly args?: readonly { readonly index: number; readonly value: number; readonly valueTwo?: number; readonly op: string }[];
}
export interface SpecSeccomp {
  readonly defaultAction: string;
  readonly defaultErrnoRet?: number;
  readonly architectures?: readonly string[];
  readonly syscalls: readonly SeccompRule[];
}
export interface RuntimeSpec {
  readonly ociVersion: string;
  readonly process: SpecProcess;
  readonly root: { readonly path: string; readonly readonly: boolean };
  readonly hostname?: string;
  readonly mounts: readonly SpecMount[];
  readonly linux: {
    readonly cgroupsPath?: string;
    readonly namespaces: readonly SpecNamespace[];
    readonly devices: readonly SpecDevice[];
    readonly resources: SpecResources;
    readonly sysctl: Readonly<Record<string, string>>;
    readonly maskedPaths: readonly string[];
    readonly readonlyPaths: readonly string[];
    readonly rootfsPropagation?: string;
    readonly seccomp?: SpecSeccomp;
  };
}
