import { mkdir, readFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join as joinPath, resolve } from 'node:path';
import { ownAddresses } from '@oarlock/cluster/addresses';
import type { JoinResponse } from '@oarlock/cluster/join-path';
import { writeAtomic } from '@oarlock/cluster/keys';
import { kubeconfig } from '@oarlock/cluster/kubeconfig';
import { newRequest } from '@oarlock/cluster/node-keys';
import { httpClient } from '@oarlock/client/http-client';
import { CommandError, exitCodes } from './exit.ts';
import { caHash } from './token.ts';
import { up } from './up.ts';

export interface JoinOptions {
  readonly server: string;
  readonly token: string;
  readonly caHash: string;
  readonly dataDir: string;
  readonly file?: string;
  readonly nodeName?: string;
  readonly detach: boolean;
}

const nodeFile = (dataDir: string) => joinPath(dataDir, 'node.json');

/** Gets certificates for this machine, once, and runs its kubelet and proxy with them. A later call with the same data directory goes on with what it got. */
export async function join(options: JoinOptions): Promise<void> {
  const dataDir = resolve(options.dataDir);
  const name = (options.nodeName ?? hostname()).toLowerCase();
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const kubeconfigFile = joinPath(dataDir, 'kubelet.kubeconfig');
  const known = await readFile(nodeFile(dataDir), 'utf8').catch((error: NodeJS.ErrnoException) => { if (error.code === 'ENOENT') return undefined; throw error; });
  if (known === undefined) await enroll(options, name, dataDir, kubeconfigFile);
  const facts = JSON.parse(await readFile(nodeFile(dataDir), 'utf8')) as { readonly nodeName: string; readonly cluster: JoinResponse['cluster'] };
  await up({
    dataDir, roles: 'kubelet,proxy', nodeName: facts.nodeName, kubeconfig: kubeconfigFile, detach: options.detach, ...(options.file !== undefined && { file: options.file }),
    joined: { cluster: facts.cluster, certificateFile: joinPath(dataDir, 'kubelet-serving.crt'), keyFile: joinPath(dataDir, 'kubelet-serving.key') },
  });
}

async function enroll({ server, token, caHash: wanted }: JoinOptions, nodeName: string, dataDir: string, kubeconfigFile: string): Promise<void> {
  if (!/^[a-z0-9]{6}\.[a-z0-9]{16}$/.test(token)) throw new CommandError('--token: a token has the form abcdef.0123456789abcdef; `oarlock token create` prints one', exitCodes.usage);
  if (!/^sha256:[0-9a-f]{64}$/.test(wanted)) throw new CommandError('--ca-hash: a hash has the form sha256:<64 hexadecimal digits>; `oarlock token create` prints it', exitCodes.usage);
  const ca = await fetchCa(server, wanted);
  const [client, serving] = await Promise.all([newRequest(`system:node:${nodeName}`), newRequest(`system:node:${nodeName}`)]);
  const api = httpClient({ server, ca, token });
  try {
    const answer = await api.raw('POST', '/oarlock/v1/join', { nodeName, addresses: ownAddresses(), clientCsr: client.csr, servingCsr: serving.csr }) as JoinResponse;
    await writeAtomic(joinPath(dataDir, 'kubelet-serving.key'), serving.key);
    await writeAtomic(joinPath(dataDir, 'kubelet-serving.crt'), answer.servingCertificate);
    await writeAtomic(kubeconfigFile, kubeconfig({ cluster: answer.cluster.name, server, ca, user: `system:node:${nodeName}`, client: { certificate: answer.clientCertificate, key: client.key } }));
    // written last: with it the node has all it needs
    await writeAtomic(nodeFile(dataDir), JSON.stringify({ nodeName, cluster: answer.cluster }));
  } finally {
    api.close();
  }
}

/** The CA comes over a connection that is not verified yet; its hash, carried here with the token, is what makes it trusted. */
async function fetchCa(server: string, wanted: string): Promise<string> {
  const client = httpClient({ server, insecureSkipTlsVerify: true });
  try {
    const { ca } = await client.raw('GET', '/oarlock/v1/ca') as { readonly ca?: unknown };
    if (typeof ca !== 'string' || caHash(ca) !== wanted) throw new CommandError(`the CA of ${server} is not the one that --ca-hash names: this is another cluster, or somebody in between`);
    return ca;
  } finally {
    client.close();
  }
}
