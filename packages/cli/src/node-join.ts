import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join as joinPath, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { isStatus, StatusError } from '@oarlock/api/status';
import { joinConflicts } from '@oarlock/cluster/configuration/cluster-configuration';
import { readClusterFile } from '@oarlock/cluster/composition/read-cluster-file';
import type { ClusterFile } from '@oarlock/cluster/cluster-file/cluster-file';
import { selectDefaultCluster } from '@oarlock/cluster/default-cluster';
import { addressTowards } from '@oarlock/cluster/process/addresses';
import { errorText } from '@oarlock/primitives/error-text';
import { writeAtomic } from '@oarlock/primitives/os/atomic-file';
import { printable } from '@oarlock/primitives/printable-text';
import { joinResponseSchema, nodeNameForm, type JoinResponse } from '@oarlock/cluster/paths/join-path';
import { createDataDir } from '@oarlock/cluster/process/process-state';
import { readDiscoveredServers } from '@oarlock/cluster/process/server-discovery';
import { caHashes } from '@oarlock/cluster/pki/ca-hash';
import { kubeconfig } from '@oarlock/cluster/pki/kubeconfig';
import { bearerToken, parseJoinToken } from '@oarlock/cluster/servers/join-token';
import { nodeSkew } from '@oarlock/cluster/servers/version-skew';
import { version } from '@oarlock/cluster/process/version';
import { takeUpAuthorities } from '@oarlock/cluster/pki/node-certificates';
import { requestCertificate, type RequestCertificateOptions } from '@oarlock/cluster/pki/request-certificate';
import type { HttpClient } from '@oarlock/client/http/client';
import { isUnavailable, retryUnavailable, type RetryOptions } from '@oarlock/client/http/retry-unavailable';
import { ServerList } from '@oarlock/client/http/server-list';
import { loadKubeconfig } from '@oarlock/client/kubeconfig';
import type { KeyPair } from '@oarlock/spi/cluster';
import { z } from 'zod';
import { CommandError, exitCodes } from './common/command-error.ts';
import { discoverCa, joinRetry, parseAnswer, rejectedToken, validateJoinTarget, withClient } from './common/join-discovery.ts';
import type { NodeJoinOptions } from './nodes/node-join-options.ts';
import { updateServingAddress } from './nodes/serving-address.ts';
import { up } from './up.ts';

interface NodeFacts {
  readonly nodeName: string;
  readonly server: string;
  /** All servers of the command line, `server` included; absent in files of earlier versions. */
  readonly servers?: readonly string[];
  readonly cluster: JoinResponse['cluster'];
}

interface NodeFiles {
  readonly dataDir: string;
  readonly kubeconfigFile: string;
  readonly certificateFile: string;
}

/** Maximum time in milliseconds to wait for the approval of a certificate request, as kubelets wait. */
const approvalTimeoutMs = 15 * 60_000;
/** As above, for the certificate of a machine whose address has changed: the node starts without it. */
const addressApprovalTimeoutMs = 30_000;
/** Time in milliseconds after which the command reports that an approval is pending. */
const approvalNoticeMs = 5_000;
/** Timeout of a connection to the server in milliseconds. The command does not wait for a server that is still starting. */
const serverTimeoutMs = 5_000;
const versionSchema = z.object({ gitVersion: z.string() });
const nodeFile = (dataDir: string) => joinPath(dataDir, 'node.json');
const usage = (message: string) => new CommandError(message, exitCodes.usage);

/**
 * Obtains certificates for this machine and runs its kubelet and proxy. Later calls with the same data directory reuse the certificates. `retry` replaces
 * how requests are repeated while a server is unavailable.
 */
export async function join(options: NodeJoinOptions, retry?: RetryOptions): Promise<void> {
  const dataDir = resolve(options.dataDir);
  const kubeconfigFile = joinPath(dataDir, 'kubelet.kubeconfig');
  const certificateFile = joinPath(dataDir, 'kubelet-serving.crt');
  const previous = await currentEnrollment(options, { dataDir, kubeconfigFile, certificateFile });
  const file = options.file === undefined ? (await selectDefaultCluster()).file : await readClusterFile(options.file);
  if (previous !== undefined) await checkFile(file, previous.cluster);
  const facts = previous ?? (await enroll({ ...options, parsed: file, retry }, { dataDir, kubeconfigFile, certificateFile }));
  await up({
    dataDir,
    roles: 'kubelet,proxy',
    nodeName: facts.nodeName,
    kubeconfig: kubeconfigFile,
    server: options.server ?? serversOf(facts),
    detach: options.detach,
    ...(options.file !== undefined && { file: options.file }),
    joined: { cluster: facts.cluster, certificateFile, keyFile: joinPath(dataDir, 'kubelet-serving.key'), kubeconfigFile },
  });
}

const serversOf = ({ server, servers }: NodeFacts): readonly string[] => servers ?? [server];

async function serverList(urls: readonly string[], dataDir: string): Promise<ServerList> {
  return new ServerList(urls, { random: Math.random, discovered: await readDiscoveredServers(dataDir) });
}

/**
 * Returns the result of an earlier enrollment if its certificates are still valid, otherwise undefined.
 * @throws CommandError if the data directory belongs to another node, or if the certificates have expired and no token is given
 */
async function readEnrollment(
  { nodeName, token }: NodeJoinOptions,
  dataDir: string,
  certificateFile: string,
): Promise<NodeFacts | undefined> {
  const text = await readFile(nodeFile(dataDir), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (text === undefined) return undefined;
  const facts = JSON.parse(text) as NodeFacts;
  if (nodeName !== undefined && nodeName.toLowerCase() !== facts.nodeName)
    throw usage(`--node-name: ${dataDir} is the data directory of the node ${facts.nodeName}`);
  const { validTo } = new X509Certificate(await readFile(certificateFile, 'utf8'));
  if (Date.parse(validTo) > Date.now()) return facts;
  if (token === undefined)
    throw new CommandError(`the node's certificates expired on ${validTo}: join again with a new token from \`oarlock token create\``);
  return undefined;
}

/**
 * Returns the result of an earlier enrollment if it is still valid and the API servers accept it, otherwise undefined.
 * @throws CommandError if the data directory belongs to another node or cluster, or if the enrollment is not valid and no token is given
 */
async function currentEnrollment(options: NodeJoinOptions, files: NodeFiles): Promise<NodeFacts | undefined> {
  const { dataDir, kubeconfigFile } = files;
  const facts = await readEnrollment(options, dataDir, files.certificateFile);
  if (facts === undefined) return undefined;
  const servers = await serverList(options.server ?? serversOf(facts), dataDir);
  const trust = await updateAuthorities(kubeconfigFile, servers);
  const { ca = '' } = (await loadKubeconfig(kubeconfigFile, { environment: {} })).options;
  if (options.caHash !== undefined && !caHashes(ca).includes(options.caHash))
    throw usage(`--ca-hash: ${dataDir} belongs to the cluster ${facts.cluster.name}, which has another CA: join with a new --data-dir`);
  if (trust === 'mutual') {
    await updateAddress(facts, files, servers);
    return facts;
  }
  if (options.token === undefined)
    throw new CommandError(
      trust === 'server unknown'
        ? `${servers.preferred} presents a certificate of a CA that the node ${facts.nodeName} does not know, as after \`oarlock keys ca use\` if the node did not run before: join again with a new token and a new --data-dir`
        : `${servers.preferred} rejects the certificate of the node ${facts.nodeName}, as after \`oarlock node remove\`: join again with a new token from \`oarlock token create\``,
    );
  return undefined;
}

/** @throws CommandError if the node's file contradicts the configuration of the cluster, with a sentence for each field */
async function checkFile(file: ClusterFile, cluster: JoinResponse['cluster']): Promise<void> {
  const { components, dnsServiceIP } = cluster;
  // servers of earlier versions store no configuration
  if (components === undefined || dnsServiceIP === undefined) return;
  const conflicts = await joinConflicts(file, {
    ...cluster,
    components,
    dnsServiceIP,
    podCIDRs: [...cluster.podCIDRs],
    serviceCIDRs: [...cluster.serviceCIDRs],
  });
  if (conflicts.length > 0) throw new CommandError(conflicts.join('\n'));
}

/** Whether a node and a server accept the certificates of each other. */
type Trust = 'mutual' | 'node rejected' | 'server unknown';

/** The codes of OpenSSL for a certificate whose CA is not one of the trusted ones. */
const unknownAuthorityCodes: ReadonlySet<unknown> = new Set([
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
]);

function isUnknownAuthority(error: unknown): boolean {
  for (let each = error; each instanceof Error; each = each.cause)
    if (unknownAuthorityCodes.has((each as NodeJS.ErrnoException).code)) return true;
  return false;
}

/** Updates the CAs in the kubeconfig, which may have changed. Returns `mutual` also if the server cannot be reached: the running node tries again later. */
async function updateAuthorities(kubeconfigFile: string, servers: ServerList): Promise<Trust> {
  const { options } = await loadKubeconfig(kubeconfigFile, { environment: {} });
  try {
    await withClient({ ...options, server: servers.preferred, servers }, (api) =>
      takeUpAuthorities(kubeconfigFile, api, AbortSignal.timeout(serverTimeoutMs)),
    );
  } catch (error) {
    if (isStatus(error, 'Unauthorized')) return 'node rejected';
    if (isUnknownAuthority(error)) return 'server unknown';
    console.error(`could not fetch the cluster CAs, so the node waits for an API server: ${errorText(error)}`);
  }
  return 'mutual';
}

/** Requests another serving certificate if the address of the machine has changed. If that fails, the node starts with the former certificate. */
async function updateAddress({ nodeName }: NodeFacts, files: NodeFiles, servers: ServerList): Promise<void> {
  const { options } = await loadKubeconfig(files.kubeconfigFile, { environment: {} });
  const signal = AbortSignal.timeout(addressApprovalTimeoutMs);
  const request = (names: readonly string[]) =>
    withClient({ ...options, server: servers.preferred, servers }, (client) =>
      requestCertificate({ client, purpose: 'serving', subject: { nodeName, names }, signal }),
    );
  const keyFile = joinPath(files.dataDir, 'kubelet-serving.key');
  try {
    const address = await addressTowards(servers.preferred, AbortSignal.timeout(serverTimeoutMs));
    await updateServingAddress({ nodeName, address, certificateFile: files.certificateFile, keyFile, request });
  } catch (error) {
    console.error(`could not request a serving certificate for the address of this machine: ${errorText(error)}`);
  }
}

/** Joins the cluster with a token: verifies the cluster's CA, requests the certificates, and writes them to the data directory. */
async function enroll(
  options: NodeJoinOptions & { readonly parsed: ClusterFile; readonly retry: RetryOptions | undefined },
  { dataDir, kubeconfigFile, certificateFile }: NodeFiles,
): Promise<NodeFacts> {
  const { servers: urls, token, expectedCaHash, nodeName } = validateOptions(options);
  const servers = new ServerList(urls, { random: Math.random });
  const signingCa = await discoverCa(servers, { expectedHash: expectedCaHash, option: '--ca-hash' });
  // a server that did not answer is now at the end of the list
  const server = servers.preferred;
  const address = await addressTowards(server, AbortSignal.timeout(serverTimeoutMs));
  const retry = joinRetry(server, options.retry);
  const answer = await withClient({ server, servers, ca: signingCa, token }, (api) =>
    retryUnavailable(() => requestJoin(api, { server, ca: signingCa, nodeName, addresses: [address] }), retry),
  );
  // all CAs of the cluster, over a connection that the signing CA verifies
  const { ca } = answer;
  await checkFile(options.parsed, answer.cluster);
  const client = await withClient({ server, servers, ca, token }, (api) =>
    obtainCertificate(api, { purpose: 'client', subject: { nodeName }, retry }),
  );
  // the serving certificate is requested with the node's own identity
  const serving = await withClient({ server, servers, ca, cert: client.certificate, key: client.key }, (api) =>
    obtainCertificate(api, { purpose: 'serving', subject: { nodeName, names: [nodeName, address] }, retry }),
  );
  const facts: NodeFacts = { nodeName, server, servers: urls, cluster: answer.cluster };
  await createDataDir(dataDir);
  await writeAtomic(joinPath(dataDir, 'kubelet-serving.key'), serving.key, { sync: true });
  await writeAtomic(certificateFile, serving.certificate, { sync: true });
  await writeAtomic(kubeconfigFile, kubeconfig({ cluster: answer.cluster.name, server, ca, user: `system:node:${nodeName}`, client }), {
    sync: true,
  });
  // written last: its presence means that the other files are complete
  await writeAtomic(nodeFile(dataDir), JSON.stringify(facts), { sync: true });
  return facts;
}

/** Requests to join, unless the versions of the node and of the server are not supported together. @throws CommandError */
async function requestJoin(
  api: HttpClient,
  { server, ca, nodeName, addresses }: Record<'server' | 'ca' | 'nodeName', string> & { readonly addresses: readonly string[] },
): Promise<JoinResponse> {
  try {
    const { gitVersion } = parseAnswer(versionSchema, await api.raw('GET', '/version'), server);
    const skew = nodeSkew(version, gitVersion);
    if (skew !== undefined) throw new CommandError(skew);
    return parseAnswer(joinResponseSchema, await api.raw('POST', '/oarlock/v1/join', { nodeName, addresses }), server);
  } catch (error) {
    if (isStatus(error, 'Unauthorized')) throw await rejectedToken({ server, ca }, 'oarlock token create');
    throw error instanceof StatusError && error.reason !== 'ServiceUnavailable' && !isUnavailable(error)
      ? new CommandError(`${server} rejects the node: ${error.message}`)
      : error;
  }
}

/** Waits for the approval of a certificate request, and prints a notice if it takes long. @throws CommandError with the reason of the failure */
async function obtainCertificate(
  api: HttpClient,
  { purpose, subject, retry }: Required<Pick<RequestCertificateOptions, 'purpose' | 'subject' | 'retry'>>,
): Promise<KeyPair> {
  const done = new AbortController();
  const signal = AbortSignal.any([done.signal, AbortSignal.timeout(approvalTimeoutMs)]);
  let request = '';
  const onCreated = (name: string) => {
    request = name;
    void delay(approvalNoticeMs, undefined, { signal, ref: false }).then(
      () => console.error(`waiting for approval of the certificate request: kubectl certificate approve ${printable(name)}`),
      () => undefined, // aborted: the request was answered in time
    );
  };
  try {
    return await requestCertificate({ client: api, purpose, subject, signal, onCreated, retry });
  } catch (error) {
    throw new CommandError(
      `could not obtain the ${purpose} certificate${request === '' ? '' : ` (${request})`}: ${(error as Error).message}`,
    );
  } finally {
    done.abort();
  }
}

/** Validates all options before the first request is sent. @throws CommandError if an option is invalid */
function validateOptions({ server: servers = [], token, caHash: expectedCaHash, nodeName: nameOption }: NodeJoinOptions) {
  if (servers.length === 0 || token === undefined || expectedCaHash === undefined)
    throw usage('the first join of a machine requires --server, --token and --ca-hash; `oarlock token create` prints them');
  for (const server of servers) validateJoinTarget({ server, caHash: expectedCaHash }, { server: '--server', caHash: '--ca-hash' });
  const parsed = parseJoinToken(token);
  if (parsed === undefined) throw usage('--token must have the form abcdef.0123456789abcdef; `oarlock token create` prints one');
  const nodeName = nameOption ?? hostname().toLowerCase();
  if (!nodeNameForm.test(nodeName))
    throw usage(`${nameOption === undefined ? 'the host name' : '--node-name'}: ${nodeName} is not a lowercase DNS name`);
  return { servers, token: bearerToken(parsed), expectedCaHash, nodeName };
}
