import { configMaps, nodes } from '@oarlock/api/resources';
import { failure, isStatus } from '@oarlock/api/status';
import { Client } from '@oarlock/spi/client';
import { apiServerNames, Cluster, Keys, type ClusterFacts } from '@oarlock/spi/cluster';
import { Paths } from '@oarlock/spi/paths';
import { z } from 'zod';
import {
  configurationMap,
  joinedClusterSchema,
  parseConfiguration,
  type ClusterConfiguration,
} from '../configuration/cluster-configuration.ts';
import { areCertificates } from '../pki/ca-hash.ts';

/** A DNS subdomain (RFC 1123): lowercase labels, at most 253 characters. */
export const nodeNameForm = /^(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/;
const nodeName = z.string().regex(nodeNameForm, 'a lowercase DNS name');
const address = z.union([z.ipv4(), z.ipv6()]);
const request = z.strictObject({
  nodeName,
  addresses: z.array(address).min(1).max(32),
});
export type JoinRequest = z.output<typeof request>;
/** The answer to a node that joins. `ca` has all CAs of the cluster in PEM. */
export const joinResponseSchema = z
  .object({ ca: z.string().refine(areCertificates, 'not CAs in PEM'), cluster: joinedClusterSchema })
  .readonly();
export type JoinResponse = z.output<typeof joinResponseSchema>;

/**
 * Returns a requested name or address that belongs to the API server, or undefined. With a serving certificate for such a name, a node could
 * impersonate the API server.
 */
function claim(facts: ClusterFacts, name: string, addresses: readonly string[]): string | undefined {
  return apiServerNames(facts).includes(name) ? name : addresses.find((address) => address === facts.kubernetesServiceIP);
}

/**
 * Returns why a machine may not join under the name of an existing node, or undefined. A ready node at another address is another machine: two kubelets
 * would run the pods of one node.
 */
async function nameConflict(client: Client, { nodeName: name, addresses }: JoinRequest): Promise<string | undefined> {
  const node = await client.get(nodes, { name }).catch((error: unknown) => {
    if (isStatus(error, 'NotFound')) return undefined;
    throw error;
  });
  const isReady = node?.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true;
  const reported = (node?.status?.addresses ?? []).filter(({ type }) => type !== 'Hostname').map((each) => each.address);
  if (!isReady || reported.some((each) => addresses.includes(each))) return undefined;
  return `a node ${name} that is ready exists at ${reported.join(', ')}: choose another --node-name, or remove that node first with \`oarlock node remove ${name}\``;
}

/** Returns the configuration in the cluster's ConfigMap, which is the same for all servers, or undefined if none is stored yet. */
async function storedConfiguration(client: Client): Promise<ClusterConfiguration | undefined> {
  const { key, ...location } = configurationMap;
  try {
    return parseConfiguration((await client.get(configMaps, location)).data?.[key]);
  } catch (error) {
    if (!isStatus(error, 'NotFound')) throw error;
    return undefined;
  }
}

const ownConfiguration = (facts: ClusterFacts): JoinResponse['cluster'] => ({
  name: facts.name,
  domain: facts.domain,
  podCIDRs: [...facts.podCIDRs],
  serviceCIDRs: [...facts.serviceCIDRs],
  nodePorts: `${facts.nodePortRange.from}-${facts.nodePortRange.to}`,
  ...(facts.featureGates && { featureGates: { ...facts.featureGates } }),
  ...(facts.emulationVersion !== undefined && { emulationVersion: facts.emulationVersion }),
});

/**
 * `POST /oarlock/v1/join`: returns the facts of the cluster to a machine with a bootstrap token, after checking the machine's node name and
 * addresses. The machine requests its certificates with CertificateSigningRequests.
 */
export const joinPath = Paths.plugin({
  id: 'node-join',
  config: z.strictObject({}),
  needs: { keys: Keys, facts: Cluster, client: Client },
  create: ({ keys, facts, client }, { log }) => ({
    path: '/oarlock/v1/join',
    methods: ['POST'],
    async handle({ body, identity }) {
      const parsed = request.safeParse(body);
      if (!parsed.success)
        return {
          code: 400,
          body: failure('BadRequest', parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; ')).status,
        };
      const { nodeName: name, addresses } = parsed.data;
      const claimed = claim(facts, name, addresses);
      if (claimed !== undefined)
        return { code: 403, body: failure('Forbidden', `${claimed} belongs to the API server; a node must not serve under it`).status };
      const conflict = await nameConflict(client, parsed.data);
      if (conflict !== undefined) return { code: 409, body: failure('Conflict', conflict).status };
      log.info({ node: name, by: identity.name }, 'a node is joining');
      const answer: JoinResponse = { ca: keys.caBundle, cluster: (await storedConfiguration(client)) ?? ownConfiguration(facts) };
      return { code: 200, body: answer };
    },
  }),
});

/** The answer to a machine that is about to join. `time` is that of the server, in milliseconds since the epoch; earlier versions do not send it. */
export interface CaResponse {
  readonly ca: string;
  readonly time?: number;
}

/** `GET /oarlock/v1/ca`: returns the cluster CA to a machine that is about to join; the machine compares the CA with a hash. */
export const caPath = Paths.plugin({
  id: 'cluster-ca',
  config: z.strictObject({}),
  needs: { keys: Keys },
  create: ({ keys }, { clock }) => ({
    path: '/oarlock/v1/ca',
    methods: ['GET'],
    handle: async () => ({ code: 200, body: { ca: keys.caBundle, time: clock.now() } satisfies CaResponse }),
  }),
});
