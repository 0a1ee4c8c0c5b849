import { X509Certificate } from 'node:crypto';
import { nodes } from '@oarlock/api/resources';
import type { Node } from '@oarlock/api/types/core-v1';
import type { Client } from '@oarlock/spi/client';
import { presentedCertificate } from '../status/certificate-expiry.ts';
import { eachNode, kubeletOf } from '../status/node-table.ts';

/**
 * The CA that signed the certificates of a node: the CA that signs now, one that is only trusted, or another one, such as that of a kubelet that
 * signs its own; `unknown` if the kubelet cannot be reached.
 */
export type NodeAuthority = 'signing' | 'trusted' | 'other' | 'unknown';

export interface NodeWithAuthority {
  readonly name: string;
  readonly signedBy: NodeAuthority;
}

/**
 * Reads which CA signed the serving certificate that each node's kubelet presents. A node renews its client certificate together with this one, and
 * writes this one last.
 * @param authorities the certificates (PEM) of the trusted CAs, the signing CA first
 */
export async function readNodeAuthorities(client: Client, authorities: readonly string[]): Promise<readonly NodeWithAuthority[]> {
  const { items } = await client.list<Node>(nodes);
  const [signing, ...trusted] = authorities.map((pem) => new X509Certificate(pem).publicKey);
  return eachNode(items, async (node) => {
    const kubelet = kubeletOf(node);
    const certificate = kubelet && (await presentedCertificate(kubelet));
    const authorityOf = (): NodeAuthority => {
      if (certificate === undefined) return 'unknown';
      if (signing !== undefined && certificate.verify(signing)) return 'signing';
      return trusted.some((key) => certificate.verify(key)) ? 'trusted' : 'other';
    };
    return { name: node.metadata?.name ?? '', signedBy: authorityOf() };
  });
}

/** Returns the names of the nodes whose certificates were signed by the given CA. */
export const nodesSignedBy = (list: readonly NodeWithAuthority[], authority: NodeAuthority): readonly string[] =>
  list.filter(({ signedBy }) => signedBy === authority).map(({ name }) => name);
