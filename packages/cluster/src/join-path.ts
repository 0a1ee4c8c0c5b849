import { failure } from '@oarlock/api/status';
import type { Identity } from '@oarlock/spi/authn';
import { Cluster, Keys, type ClusterFacts } from '@oarlock/spi/cluster';
import { Paths } from '@oarlock/spi/paths';
import { z } from 'zod';

/** A DNS subdomain (RFC 1123): labels in lower case, at most 253 characters. */
export const nodeNameForm = /^(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/;
const nodeName = z.string().regex(nodeNameForm, 'a DNS name in lower case');
const address = z.union([z.ipv4(), z.ipv6()]);
const request = z.strictObject({
  nodeName,
  addresses: z.array(address).min(1).max(32),
  /** PKCS #10, PEM: the key never leaves the node. One for what the node asks, one for what it serves. */
  clientCsr: z.string().max(8192),
  servingCsr: z.string().max(8192),
});
export type JoinRequest = z.output<typeof request>;
export interface JoinResponse {
  readonly ca: string;
  readonly clientCertificate: string;
  readonly servingCertificate: string;
  readonly cluster: {
    readonly name: string;
    readonly domain: string;
    readonly podCIDRs: readonly string[];
    readonly serviceCIDRs: readonly string[];
    readonly nodePorts: string;
  };
}

/** A name or an address of the API server's own that a node asks for: with a serving certificate for it, the node could pass for the API server. */
function claim({ domain, kubernetesServiceIP }: ClusterFacts, name: string, addresses: readonly string[]): string | undefined {
  const names = ['localhost', 'kubernetes', 'kubernetes.default', 'kubernetes.default.svc', `kubernetes.default.svc.${domain}`];
  return names.includes(name) ? name : addresses.find((address) => address === kubernetesServiceIP);
}

/** A node is who it is. */
const isOtherNode = ({ name, groups }: Identity, node: string): boolean =>
  groups.includes('system:nodes') && name !== `system:node:${node}`;

/**
 * `POST /oarlock/v1/join`: a machine that holds a bootstrap token becomes a node. It is given certificates and the facts of the cluster; later it
 * renews the certificates with those that it has.
 */
export const joinPath = Paths.plugin({
  id: 'node-join',
  config: z.strictObject({}),
  needs: { keys: Keys, facts: Cluster },
  create: ({ keys, facts }, { log }) => ({
    path: '/oarlock/v1/join',
    methods: ['POST'],
    async handle({ body, identity }) {
      const parsed = request.safeParse(body);
      if (!parsed.success)
        return {
          code: 400,
          body: failure('BadRequest', parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; ')).status,
        };
      const { nodeName: name, addresses, clientCsr, servingCsr } = parsed.data;
      if (isOtherNode(identity, name))
        return { code: 403, body: failure('Forbidden', `${identity.name} renews its own certificates, not those of ${name}`).status };
      const claimed = claim(facts, name, addresses);
      if (claimed !== undefined)
        return { code: 403, body: failure('Forbidden', `${claimed} is the API server's, no node may serve under it`).status };
      try {
        const [clientCertificate, servingCertificate] = await Promise.all([
          keys.sign(clientCsr, { commonName: `system:node:${name}`, organizations: ['system:nodes'], usages: ['client'] }),
          keys.sign(servingCsr, {
            commonName: `system:node:${name}`,
            organizations: ['system:nodes'],
            usages: ['server'],
            dnsNames: [name],
            ipAddresses: addresses,
          }),
        ]);
        log.info({ node: name, by: identity.name }, 'a node joined');
        const answer: JoinResponse = {
          ca: keys.caBundle,
          clientCertificate,
          servingCertificate,
          cluster: {
            name: facts.name,
            domain: facts.domain,
            podCIDRs: facts.podCIDRs,
            serviceCIDRs: facts.serviceCIDRs,
            nodePorts: `${facts.nodePortRange.from}-${facts.nodePortRange.to}`,
          },
        };
        return { code: 200, body: answer };
      } catch (error) {
        return { code: 400, body: failure('BadRequest', `the certificate requests cannot be signed: ${(error as Error).message}`).status };
      }
    },
  }),
});

/** `GET /oarlock/v1/ca`: the cluster's CA, for machines that are about to join; they check it against a hash they were given. */
export const caPath = Paths.plugin({
  id: 'cluster-ca',
  config: z.strictObject({}),
  needs: { keys: Keys },
  create: ({ keys }) => ({ path: '/oarlock/v1/ca', methods: ['GET'], handle: async () => ({ code: 200, body: { ca: keys.caBundle } }) }),
});
