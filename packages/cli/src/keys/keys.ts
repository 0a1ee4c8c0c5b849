import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { AuthorityError, readAuthority, type AuthorityName, type AuthorityStep } from '@oarlock/cluster/pki/authorities';
import { certificatesOf } from '@oarlock/cluster/pki/ca-hash';
import {
  removeFormerServiceAccountKeys,
  rotateAuthority,
  rotateServiceAccountKey,
  type GeneratedTokenAlgorithm,
} from '@oarlock/cluster/pki/keys';
import type { KeysStatus } from '@oarlock/cluster/servers/server-plugins';
import { readProcessState } from '@oarlock/cluster/process/process-state';
import { areKeysShared } from '../common/are-keys-shared.ts';
import { CommandError, exitCodes } from '../common/command-error.ts';
import { describeExpiry } from '../status/certificate-expiry.ts';
import { formatTable } from '../common/format-table.ts';
import { printFacts, type OutputFormat } from '../common/output.ts';
import { withCluster } from '../common/cluster-access.ts';
import { nodesSignedBy, readNodeAuthorities, type NodeAuthority, type NodeWithAuthority } from './node-authorities.ts';
import { withSharedKeys, type SharedKeysOptions } from './shared-key-rotation.ts';

export interface RotateKeyOptions extends SharedKeysOptions {
  /** True to delete the former public keys instead. */
  readonly end?: boolean;
  /** The algorithm of the new key; by default that of the old key. */
  readonly algorithm?: GeneratedTokenAlgorithm;
}

/** Replaces the key that signs service account tokens. Running API servers use the new key at once. */
export async function rotateKey(options: RotateKeyOptions): Promise<void> {
  const { dataDir, end = false, algorithm } = options;
  if (areKeysShared(dataDir)) return rotateSharedKey(options);
  const directory = join(resolve(dataDir), 'pki');
  if (!existsSync(join(directory, 'service-account.key')))
    throw new CommandError(`${directory} has no service account signing key: no API server has run there`);
  if (end) {
    await removeFormerServiceAccountKeys(directory);
    process.stdout.write('Deleted the old public keys: tokens signed with them are invalid.\n');
    return;
  }
  await rotateServiceAccountKey(directory, algorithm);
  process.stdout.write(`Service account tokens are now signed with a new key.
Tokens signed with the old keys stay valid. When all of them have expired, delete the old public keys: ${join(directory, 'service-account.*.pub')}
`);
}

async function rotateSharedKey({ end = false, algorithm, ...options }: RotateKeyOptions): Promise<void> {
  await withSharedKeys(options, async (rotation) => {
    if (end) {
      await rotation.step('service-account', 'end');
      return rotation.whenApplied();
    }
    await rotation.addAndUse('service-account', algorithm);
  });
  process.stdout.write(
    end
      ? 'Deleted the old public keys on all servers: tokens signed with them are invalid.\n'
      : `All servers now sign service account tokens with a new key.
Tokens signed with the old keys stay valid. When all of them have expired, delete the old public keys with \`oarlock keys rotate --end\`.
`,
  );
}

/** Prints the keys that servers share, and which running servers use them. */
export async function keysStatus({ output, ...options }: SharedKeysOptions & { readonly output: OutputFormat }): Promise<void> {
  const { dataDir } = options;
  if (!areKeysShared(dataDir))
    throw new CommandError(
      `${resolve(dataDir)} has no keys that servers share: its keys are in ${join(resolve(dataDir), 'pki')} only`,
      exitCodes.usage,
    );
  const status = await withSharedKeys(options, async (rotation) => {
    const keys = await rotation.status();
    return { ...keys, nodes: await rotation.nodes(keys) };
  });
  await printFacts(output, status, keysText);
}

/** The state of the shared keys, and which CA signed the certificates of each node. */
export interface KeysAndNodes extends KeysStatus {
  readonly nodes: readonly NodeWithAuthority[];
}

const authorityTitles: Readonly<Record<NodeAuthority, string>> = {
  signing: 'signing CA',
  trusted: 'OTHER TRUSTED CA',
  other: 'unknown CA',
  unknown: '<unknown>',
};

const authorityNames = ['ca', 'front-proxy-ca'] as const satisfies readonly AuthorityName[];
const columnTitles = ['TRUSTS NEXT CA', 'SIGNS WITH CA', 'TRUSTS NEXT FRONT-PROXY CA', 'SIGNS WITH FRONT-PROXY CA', 'TRUSTS REMOVED CA'];

export function keysText({ generation, identity, servers, expirations, pending, nodes }: KeysAndNodes): string {
  const described = (id: string) =>
    expirations[id] === undefined ? id : `${id} (expires ${describeExpiry(Date.parse(expirations[id]), Date.now())})`;
  const rows = servers.map(({ name, ready, keysGeneration, trustedCAs, frontProxyCAs }) => {
    // a server that does not run applies all steps when it starts
    const isDone = (keys: AuthorityName, step: 'use' | 'end') => (!ready ? '-' : pending[keys][step].includes(name) ? 'no' : 'yes');
    const columns = authorityNames.flatMap((keys) => [isDone(keys, 'use'), isDone(keys, 'end')]);
    const current = [...(identity['ca'] ?? []), ...(identity['frontProxyCa'] ?? [])];
    const trustsRemoved = [...trustedCAs, ...frontProxyCAs].some((hash) => !current.includes(hash));
    return [name, ready ? 'Ready' : 'NotReady', String(keysGeneration), ...columns, !ready ? '-' : trustsRemoved ? 'yes' : 'no'];
  });
  return [
    `generation ${generation}`,
    ...Object.entries(identity).map(([set, ids]) => `${set}: ${ids.map(described).join(', ') || 'none'}`),
    formatTable([['NAME', 'STATUS', 'KEYS', ...columnTitles], ...rows]),
    ...memberTable(identity['etcdCa'] ?? [], servers),
    ...(nodes.length === 0
      ? []
      : ['', formatTable([['NODE', 'CERTIFICATE OF'], ...nodes.map(({ name, signedBy }) => [name, authorityTitles[signedBy]])])]),
  ].join('\n');
}

/** Returns the table of the CAs that the members of the storage use, also of servers that do not run: their members may. */
function memberTable(etcdCa: readonly string[], servers: KeysStatus['servers']): readonly string[] {
  if (etcdCa.length === 0) return [];
  const yesOrNo = (value: boolean) => (value ? 'yes' : 'no');
  const rows = servers.map(({ name, memberCAs }) => {
    if (memberCAs === undefined) return [name, '<unknown>', '<unknown>', '<unknown>'];
    const { signing, trusted } = memberCAs;
    return [
      name,
      yesOrNo(signing === etcdCa[0]),
      yesOrNo(etcdCa.every((hash) => trusted.includes(hash))),
      yesOrNo(trusted.some((hash) => !etcdCa.includes(hash))),
    ];
  });
  const head = ['ETCD MEMBER', 'CERTIFICATES OF THE SIGNING CA', 'TRUSTS ALL CAS', 'TRUSTS REMOVED CA'];
  return ['', formatTable([head, ...rows])];
}

const titles: Readonly<Record<AuthorityName, string>> = { ca: 'cluster CA', 'front-proxy-ca': 'front-proxy CA' };
const resultMessages: Readonly<Record<AuthorityStep, (name: AuthorityName) => string>> = {
  add: (name) => `Added the next ${titles[name]}. When all components trust it, make it the signing CA with \`oarlock keys ${name} use\`.`,
  use: (name) =>
    `The next ${titles[name]} signs certificates now. When no certificate of the old CA is in use, remove the old CA with \`oarlock keys ${name} end\`.`,
  end: (name) => `Removed the old ${titles[name]}.`,
};
/** Hints about restarts after a rotation, by CA. Nodes do not use the front-proxy CA. */
const restartHints: Readonly<Record<AuthorityName, (dataDir: string) => string>> = {
  ca: (dataDir) => `Restart the processes of ${dataDir}, then every joined node: they apply the step when they start.`,
  'front-proxy-ca': (dataDir) => `Restart the API server of ${dataDir}: it applies the step when it starts.`,
};

const sharedRestartHints: Readonly<Record<AuthorityName, string>> = {
  ca: 'All servers have received the keys. Restart the servers one after another, then every joined node: they apply the step when they start. `oarlock keys status` shows the progress.',
  'front-proxy-ca':
    'All servers have received the keys. Restart the servers one after another: they apply the step when they start. `oarlock keys status` shows the progress.',
};

/** Reads the certificates of the nodes of the cluster that runs in the data directory. Without a running cluster they cannot be known. */
async function checkNodes(directory: string, options: SharedKeysOptions): Promise<void> {
  const authority = await readAuthority(directory);
  if (authority === undefined) return; // the step reports it
  if ((await readProcessState(resolve(options.dataDir))) === undefined) {
    process.stderr.write('The cluster is not running: nodes with certificates of the former CA, if there are any, have to join again.\n');
    return;
  }
  requireRenewedNodes(await withCluster(options, ({ client }) => readNodeAuthorities(client, certificatesOf(authority.bundle))));
}

/** Warns of nodes that do not answer. @throws CommandError if a node still presents a certificate of a former CA, which `end` would lock out */
export function requireRenewedNodes(list: readonly NodeWithAuthority[]): void {
  const former = nodesSignedBy(list, 'trusted');
  if (former.length > 0)
    throw new CommandError(
      `${former.join(', ')} still ${former.length === 1 ? 'presents a certificate' : 'present certificates'} of the former CA: restart each of these nodes, and run the command again. A machine that is gone is no longer considered when its Node is deleted`,
      exitCodes.usage,
    );
  const unknown = nodesSignedBy(list, 'unknown');
  if (unknown.length > 0)
    process.stderr.write(
      `${unknown.join(', ')} did not answer: ${unknown.length === 1 ? 'the node has' : 'these nodes have'} to join again if the former CA signed ${unknown.length === 1 ? 'its' : 'their'} certificates.\n`,
    );
}

/** Takes one step of the rotation of a CA. @throws CommandError if the step is not possible now */
export async function rotateCa(name: AuthorityName, step: AuthorityStep, options: SharedKeysOptions): Promise<void> {
  const { dataDir } = options;
  if (areKeysShared(dataDir)) {
    await withSharedKeys(options, async (rotation) => {
      if (name === 'ca' && step === 'end') {
        const keys = await rotation.status();
        // servers that have not applied the step before reject this one, and nodes renew their certificates only then
        if (keys.pending.ca.end.length === 0) requireRenewedNodes(await rotation.nodes(keys));
      }
      await rotation.step(name, step);
      return rotation.whenApplied();
    });
    process.stdout.write(`${resultMessages[step](name)}\n${sharedRestartHints[name]}\n`);
    return;
  }
  const directory = join(resolve(dataDir), 'pki');
  if (name === 'ca' && step === 'end') await checkNodes(directory, options);
  try {
    await rotateAuthority(directory, step, name);
  } catch (cause) {
    if (!(cause instanceof AuthorityError)) throw cause;
    throw new CommandError(cause.message, exitCodes.usage, { cause });
  }
  process.stdout.write(`${resultMessages[step](name)}\n${restartHints[name](dataDir)}\n`);
}
