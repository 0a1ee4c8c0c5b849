import { X509Certificate } from 'node:crypto';
import { mkdir, readFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join as joinPath, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { isStatus, StatusError } from '@oarlock/api/status';
import { ownAddresses } from '@oarlock/cluster/addresses';
import { writeAtomic } from '@oarlock/cluster/files';
import { nodeNameForm, type JoinResponse } from '@oarlock/cluster/join-path';
import { kubeconfig } from '@oarlock/cluster/kubeconfig';
import type { NodeSubject } from '@oarlock/cluster/node-keys';
import { takeUpAuthorities } from '@oarlock/cluster/node-certificates';
import { certify } from '@oarlock/cluster/node-requests';
import { httpClient, type HttpClient, type HttpClientOptions } from '@oarlock/client/http-client';
import { loadKubeconfig } from '@oarlock/client/kubeconfig';
import type { KeyPair } from '@oarlock/spi/cluster';
import { CommandError, exitCodes } from './exit.ts';
import { caHash } from './token.ts';
import { up } from './up.ts';

export interface JoinOptions {
  readonly server?: string;
  readonly token?: string;
  readonly caHash?: string;
  readonly dataDir: string;
  readonly file?: string;
  readonly nodeName?: string;
  readonly detach: boolean;
}
interface NodeFacts {
  readonly nodeName: string;
  readonly server: string;
  readonly cluster: JoinResponse['cluster'];
}

/** As long as kubelets wait for theirs. */
const approvalMs = 15 * 60_000;
const quietMs = 5_000;
/** A server that is on its way up is not waited for. */
const learnMs = 5_000;
const nodeFile = (dataDir: string) => joinPath(dataDir, 'node.json');
const usage = (message: string) => new CommandError(message, exitCodes.usage);

/** Gets certificates for this machine, once, and runs its kubelet and proxy with them. A later call with the same data directory goes on with what it got. */
export async function join(options: JoinOptions): Promise<void> {
  const dataDir = resolve(options.dataDir);
  const kubeconfigFile = joinPath(dataDir, 'kubelet.kubeconfig');
  const certificateFile = joinPath(dataDir, 'kubelet-serving.crt');
  const before = await known(options, dataDir, certificateFile);
  if (before !== undefined) await learnAuthorities(kubeconfigFile, options.server ?? before.server);
  const facts = before ?? (await enroll(options, dataDir, kubeconfigFile, certificateFile));
  await up({
    dataDir,
    roles: 'kubelet,proxy',
    nodeName: facts.nodeName,
    kubeconfig: kubeconfigFile,
    server: options.server ?? facts.server,
    detach: options.detach,
    ...(options.file !== undefined && { file: options.file }),
    joined: { cluster: facts.cluster, certificateFile, keyFile: joinPath(dataDir, 'kubelet-serving.key'), kubeconfigFile },
  });
}

/** What an earlier call got, as long as its certificates are good. @throws CommandError when the directory is another node's */
async function known({ nodeName, token }: JoinOptions, dataDir: string, certificateFile: string): Promise<NodeFacts | undefined> {
  const text = await readFile(nodeFile(dataDir), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (text === undefined) return undefined;
  const facts = JSON.parse(text) as NodeFacts;
  if (nodeName !== undefined && nodeName.toLowerCase() !== facts.nodeName)
    throw usage(`--node-name: ${dataDir} is that of the node ${facts.nodeName}`);
  const { validTo } = new X509Certificate(await readFile(certificateFile, 'utf8'));
  if (Date.parse(validTo) > Date.now()) return facts;
  if (token === undefined)
    throw new CommandError(`the certificates of the node ended on ${validTo}: join again with a new token from \`oarlock token create\``);
  return undefined;
}

/** The cluster may have got another CA meanwhile. One that cannot be asked now is asked again by the node that runs. */
async function learnAuthorities(kubeconfigFile: string, server: string): Promise<void> {
  const { options } = await loadKubeconfig(kubeconfigFile, { environment: {} });
  try {
    await using({ ...options, server }, (api) => takeUpAuthorities(kubeconfigFile, api, AbortSignal.timeout(learnMs)));
  } catch (error) {
    console.error(`the CAs of the cluster could not be asked for: ${error instanceof Error ? error.message : String(error)}`);
  }
}

async function enroll(options: JoinOptions, dataDir: string, kubeconfigFile: string, certificateFile: string): Promise<NodeFacts> {
  const { server, token, wanted, nodeName } = checked(options);
  const ca = await fetchCa(server, wanted);
  const addresses = ownAddresses();
  const answer = await using({ server, ca, token }, (api) => askedIn(api, server, nodeName, addresses));
  const client = await using({ server, ca, token }, (api) => certified(api, 'client', { nodeName }));
  // what it serves with, the node asks for as the node
  const serving = await using({ server, ca, cert: client.certificate, key: client.key }, (api) =>
    certified(api, 'serving', { nodeName, names: [nodeName, ...addresses] }),
  );
  const facts: NodeFacts = { nodeName, server, cluster: answer.cluster };
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  await writeAtomic(joinPath(dataDir, 'kubelet-serving.key'), serving.key);
  await writeAtomic(certificateFile, serving.certificate);
  await writeAtomic(kubeconfigFile, kubeconfig({ cluster: answer.cluster.name, server, ca, user: `system:node:${nodeName}`, client }));
  // written last: with it the node has all it needs
  await writeAtomic(nodeFile(dataDir), JSON.stringify(facts));
  return facts;
}

async function using<T>(options: HttpClientOptions, work: (api: HttpClient) => Promise<T>): Promise<T> {
  const api = httpClient(options);
  try {
    return await work(api);
  } finally {
    api.close();
  }
}

async function askedIn(api: HttpClient, server: string, nodeName: string, addresses: readonly string[]): Promise<JoinResponse> {
  try {
    return (await api.raw('POST', '/oarlock/v1/join', { nodeName, addresses })) as JoinResponse;
  } catch (error) {
    if (isStatus(error, 'Unauthorized'))
      throw new CommandError(`${server} does not take the token: it is unknown or has expired; \`oarlock token create\` prints a new one`);
    throw error instanceof StatusError && error.reason !== 'ServiceUnavailable'
      ? new CommandError(`${server} refuses the node: ${error.message}`)
      : error;
  }
}

/** Waits for whoever approves, and says so when that is nobody who answers at once. @throws CommandError with the reason why there is no certificate */
async function certified(api: HttpClient, purpose: 'client' | 'serving', subject: NodeSubject): Promise<KeyPair> {
  const done = new AbortController();
  const signal = AbortSignal.any([done.signal, AbortSignal.timeout(approvalMs)]);
  let request = '';
  const asked = (name: string) => {
    request = name;
    void delay(quietMs, undefined, { signal, ref: false }).then(
      () => console.error(`waiting for somebody to approve: kubectl certificate approve ${name}`),
      () => undefined, // it was answered before
    );
  };
  try {
    return await certify({ client: api, purpose, subject, signal, asked });
  } catch (error) {
    throw new CommandError(`the node gets no ${purpose} certificate${request === '' ? '' : ` (${request})`}: ${(error as Error).message}`);
  } finally {
    done.abort();
  }
}

/** Nothing is asked over the network before everything given makes sense. */
function checked({ server, token, caHash: wanted, nodeName: named }: JoinOptions) {
  if (server === undefined || token === undefined || wanted === undefined)
    throw usage('a machine that has not joined yet needs --server, --token and --ca-hash; `oarlock token create` prints them');
  if (!URL.canParse(server) || new URL(server).protocol !== 'https:')
    throw usage(`--server: ${server} is not an https URL such as https://10.0.0.1:6443`);
  if (!/^[a-z0-9]{6}\.[a-z0-9]{16}$/.test(token))
    throw usage('--token: a token has the form abcdef.0123456789abcdef; `oarlock token create` prints one');
  if (!/^sha256:[0-9a-f]{64}$/.test(wanted))
    throw usage('--ca-hash: a hash has the form sha256:<64 hexadecimal digits>; `oarlock token create` prints it');
  const nodeName = named ?? hostname().toLowerCase();
  if (!nodeNameForm.test(nodeName))
    throw usage(`${named === undefined ? 'the host name' : '--node-name'}: ${nodeName} is not a DNS name in lower case`);
  return { server, token, wanted, nodeName };
}

/** The CA comes over a connection that is not verified yet; its hash, carried here with the token, is what makes it trusted. */
async function fetchCa(server: string, wanted: string): Promise<string> {
  const client = httpClient({ server, insecureSkipTlsVerify: true });
  try {
    const { ca } = (await client.raw('GET', '/oarlock/v1/ca')) as { readonly ca?: unknown };
    if (typeof ca !== 'string' || caHash(ca) !== wanted)
      throw new CommandError(`the CA of ${server} is not the one that --ca-hash names: this is another cluster, or somebody in between`);
    return ca;
  } finally {
    client.close();
  }
}
