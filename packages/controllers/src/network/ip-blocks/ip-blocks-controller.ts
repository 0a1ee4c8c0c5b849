import type { KubeObject } from '@oarlock/api/object';
import { customResourceDefinitions, nodes as nodeResource } from '@oarlock/api/resources';
import { resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import type { Client } from '@oarlock/spi/client';
import { Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';

/** A block of pod addresses (IPBlock resource). The network plugins of nodes write these objects: see plugins/network-calico. */
export interface IPBlock extends KubeObject {
  readonly spec: {
    readonly cidr: string;
    readonly pool: string;
    readonly node?: string;
    readonly claims?: Readonly<Record<string, readonly number[]>>;
    readonly wanted?: Readonly<Record<string, string>>;
  };
}
export const ipBlocks = resource<IPBlock>('network.oarlock.dev', 'v1', 'ipblocks', 'IPBlock', false);
/** Annotation on nodes that use IP blocks. */
export const blocksAnnotation = 'network.oarlock.dev/blocks';

const text = { type: 'string', maxLength: 253 };
const ordinal = { type: 'integer', minimum: 0, maximum: 255 };
const definition: CustomResourceDefinition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'ipblocks.network.oarlock.dev' },
  spec: {
    group: ipBlocks.group,
    scope: 'Cluster',
    names: { plural: 'ipblocks', singular: 'ipblock', kind: 'IPBlock', listKind: 'IPBlockList' },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: {
            type: 'object',
            required: ['spec'],
            properties: {
              spec: {
                type: 'object',
                required: ['cidr', 'pool'],
                properties: {
                  cidr: text,
                  pool: text,
                  node: text,
                  claims: { type: 'object', additionalProperties: { type: 'array', maxItems: 256, items: ordinal } },
                  wanted: { type: 'object', additionalProperties: text },
                },
              },
            },
          },
        },
        additionalPrinterColumns: [
          { name: 'CIDR', type: 'string', jsonPath: '.spec.cidr' },
          { name: 'Node', type: 'string', jsonPath: '.spec.node' },
          { name: 'Pool', type: 'string', jsonPath: '.spec.pool' },
        ],
      },
    ],
  },
};

/** Returns the block without a node, or undefined if no node uses the block any more. */
export function withoutNode({ spec, ...block }: IPBlock, node: string): IPBlock | undefined {
  const { [node]: _, ...claims } = spec.claims ?? {};
  const { node: owner, ...rest } = spec;
  const hasOtherOwner = owner !== undefined && owner !== node;
  return !hasOtherOwner && Object.keys(claims).length === 0
    ? undefined
    : { ...block, spec: { ...rest, claims, ...(hasOtherOwner && { node: owner }) } };
}

const nodesOf = ({ spec }: IPBlock): readonly string[] => [
  ...new Set([...(spec.node === undefined ? [] : [spec.node]), ...Object.keys(spec.claims ?? {})]),
];

/** Removes the nodes for which `isGone` returns true from all blocks, and deletes blocks that no node uses. */
async function releaseBlocks(client: Client, isGone: (node: string) => Promise<boolean> | boolean): Promise<void> {
  const { items } = await client.list(ipBlocks);
  for (const block of items) {
    let remaining: IPBlock | undefined = block;
    for (const node of nodesOf(block)) if (remaining !== undefined && (await isGone(node))) remaining = withoutNode(remaining, node);
    const { name = '', resourceVersion = '' } = block.metadata ?? {};
    if (remaining === undefined) await client.delete(ipBlocks, { name }, { preconditions: { resourceVersion } });
    else if (remaining !== block) await client.update(ipBlocks, remaining);
  }
}

/** Returns true if the read fails with NotFound. @throws all other errors of the read */
async function isMissing(read: Promise<unknown>): Promise<boolean> {
  try {
    await read;
    return false;
  } catch (error) {
    if (!isStatus(error, 'NotFound')) throw error;
    return true;
  }
}

/** Creates the CustomResourceDefinition. If it already exists, releases the blocks of nodes that were deleted while no controller ran. */
async function createDefinition(client: Client, isKnown: (node: string) => boolean): Promise<void> {
  if (await isMissing(client.get(customResourceDefinitions, { name: definition.metadata?.name ?? '' }))) {
    await client.create(customResourceDefinitions, definition).catch((error: unknown) => {
      if (!isStatus(error, 'AlreadyExists')) throw error;
    });
    return;
  }
  // a new node may have a block before this cache has the node
  await releaseBlocks(client, (name) => !isKnown(name) && isMissing(client.get(nodeResource, { name })));
}

/** Creates the CustomResourceDefinition of IPBlock when a node uses IP blocks, and releases the blocks of deleted nodes. */
export default Controllers.plugin({
  id: 'controller-ip-blocks',
  declares: { loop: 'ip-blocks' },
  config: z.strictObject({}),
  needs: { informers: Informers },
  create({ informers }) {
    const nodes = informers.forResource(nodeResource);
    const usesBlocks = (node: { readonly metadata?: { readonly annotations?: Readonly<Record<string, string>> } } | undefined) =>
      node?.metadata?.annotations?.[blocksAnnotation] !== undefined;
    let isInitialized = false;
    return {
      name: 'ip-blocks',
      concurrentReconciles: 1,
      watches: [
        watch(nodes, (node, old) => {
          const { name = '' } = node.metadata ?? {};
          return usesBlocks(node) && (old === undefined || !usesBlocks(old) || nodes.get(name) === undefined) ? [name] : [];
        }),
      ],
      async reconcile(name, { client }) {
        if (!isInitialized) {
          await createDefinition(client, (node) => nodes.get(node) !== undefined);
          isInitialized = true;
        }
        if (nodes.get(name) === undefined) await releaseBlocks(client, (node) => node === name);
      },
    };
  },
});
