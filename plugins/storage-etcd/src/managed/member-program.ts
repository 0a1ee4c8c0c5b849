import { runProgram } from '@oarlock/primitives/os/run-program';
import type { Clock } from '@oarlock/primitives/clock';

/** Timeout of `etcd --version` in milliseconds; the host allows a probe one second. */
const versionTimeoutMs = 900;
const environment: Readonly<Record<string, string>> = process.arch === 'x64' ? {} : { ETCD_UNSUPPORTED_ARCH: process.arch };

/** Version of an etcd program: `minor` is 4 for etcd 3.4. */
export interface EtcdVersion {
  readonly text: string;
  readonly minor: number;
}

/** Returns the version of an etcd program. @throws Error if it cannot be run or is older than 3.4, which has no learners */
export async function etcdVersion(program: string, clock: Clock): Promise<EtcdVersion> {
  let output: string;
  try {
    const { stdout, stderr, exitCode, killed } = await runProgram(clock, program, ['--version'], {
      timeoutMs: versionTimeoutMs,
      env: environment,
    });
    if (exitCode !== 0) throw new Error(killed ?? `it ended with ${exitCode}: ${stderr.trim().slice(0, 200)}`);
    output = stdout;
  } catch (cause) {
    throw new Error(`the etcd program ${program} cannot be run (Debian: etcd-server): ${(cause as Error).message}`, { cause });
  }
  const [, text = '', major = '', minor = ''] = /^etcd Version: ((\d+)\.(\d+)\S*)/m.exec(output) ?? [];
  if (major !== '3' || Number(minor) < 4)
    throw new Error(`${program} is etcd ${text === '' ? 'of an unknown version' : text}: 3.4 or later is needed`);
  return { text, minor: Number(minor) };
}

export const memberUrl = (address: string, port: number): string => `https://${address.includes(':') ? `[${address}]` : address}:${port}`;

/** The files of the TLS certificates of a member. */
export interface MemberTls {
  readonly caFile: string;
  readonly server: { readonly certFile: string; readonly keyFile: string };
  readonly peer: { readonly certFile: string; readonly keyFile: string };
}

export interface MemberSettings {
  readonly name: string;
  readonly dataDir: string;
  readonly clientUrl: string;
  readonly peerUrl: string;
  readonly quotaBytes: number;
  readonly maxRequestBytes: number;
  readonly tls: MemberTls;
}

/** How a member without data starts. A member with data ignores these values. */
export interface InitialCluster {
  /** Name and peer URL of each member, `NAME=URL`. */
  readonly members: readonly string[];
  readonly state: 'new' | 'existing';
  readonly token: string;
}

/** Returns the arguments of `etcd`, which are the same for 3.4, 3.5 and 3.6 except for the check of the data at the start. */
export function memberArguments(settings: MemberSettings, { minor }: EtcdVersion, initial: InitialCluster | undefined): readonly string[] {
  const { name, dataDir, clientUrl, peerUrl, quotaBytes, maxRequestBytes, tls } = settings;
  return [
    `--name=${name}`,
    `--data-dir=${dataDir}`,
    `--listen-client-urls=${clientUrl}`,
    `--advertise-client-urls=${clientUrl}`,
    `--listen-peer-urls=${peerUrl}`,
    `--initial-advertise-peer-urls=${peerUrl}`,
    '--client-cert-auth',
    `--trusted-ca-file=${tls.caFile}`,
    `--cert-file=${tls.server.certFile}`,
    `--key-file=${tls.server.keyFile}`,
    '--peer-client-cert-auth',
    `--peer-trusted-ca-file=${tls.caFile}`,
    `--peer-cert-file=${tls.peer.certFile}`,
    `--peer-key-file=${tls.peer.keyFile}`,
    `--quota-backend-bytes=${quotaBytes}`,
    `--max-request-bytes=${maxRequestBytes}`,
    // a member that returns from a partition does not disturb the leader
    '--pre-vote',
    // a member whose data differs from that of the others does not start
    ...(minor >= 6 ? ['--feature-gates=InitialCorruptCheck=true'] : ['--experimental-initial-corrupt-check']),
    '--logger=zap',
    '--log-level=info',
    ...(initial === undefined
      ? []
      : [
          `--initial-cluster=${initial.members.join(',')}`,
          `--initial-cluster-state=${initial.state}`,
          `--initial-cluster-token=${initial.token}`,
        ]),
  ];
}

/** Environment of the program: its own only, so that variables such as ETCD_NAME of this process have no effect. */
export const memberEnvironment = environment;

/** What the start of a member depends on. */
export interface StartContext {
  readonly version: EtcdVersion;
  readonly signal: AbortSignal;
}
export interface MemberStart extends Pick<StartContext, 'version'> {
  readonly initial: InitialCluster | undefined;
}
