import type { KubeObject } from '@oarlock/api/object';
import { customResourceDefinitions, nodes as nodeResource } from '@oarlock/api/resources';
import { resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import type { Client } from '@oarlock/spi/client';
import { Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';

/** As the network plugins of nodes write it: see plugins/network-calico. */
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
/** On nodes whose addresses come from blocks. */
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

/** What is left of a block when a node is gone; undefined: nobody needs it. */
export function without({ spec, ...block }: IPBlock, node: string): IPBlock | undefined {
  const { [node]: _, ...claims } = spec.claims ?? {};
  const { node: owner, ...rest } = spec;
  const stays = owner !== undefined && owner !== node;
  return !stays && Object.keys(claims).length === 0 ? undefined : { ...block, spec: { ...rest, claims, ...(stays && { node: owner }) } };
}

const nodesOf = ({ spec }: IPBlock): readonly string[] => [
  ...new Set([...(spec.node === undefined ? [] : [spec.node]), ...Object.keys(spec.claims ?? {})]),
];

/** Takes back what nodes have of blocks that `isGone` says are not there any more. */
async function release(client: Client, isGone: (node: string) => Promise<boolean> | boolean): Promise<void> {
  const { items } = await client.list(ipBlocks);
  for (const block of items) {
    let left: IPBlock | undefined = block;
    for (const node of nodesOf(block)) if (left !== undefined && (await isGone(node))) left = without(left, node);
    const { name = '', resourceVersion = '' } = block.metadata ?? {};
    if (left === undefined) await client.delete(ipBlocks, { name }, { preconditions: { resourceVersion } });
    else if (left !== block) await client.update(ipBlocks, left);
  }
}

/** Whether a read finds nothing. @throws whatever else goes wrong */
async function isMissing(read: Promise<unknown>): Promise<boolean> {
  try {
    await read;
    return false;
  } catch (error) {
    if (!isStatus(error, 'NotFound')) throw error;
    return true;
  }
}

/** Has the kind served; where it was already, nodes may have gone while nobody looked. */
async function begin(client: Client, isKnown: (node: string) => boolean): Promise<void> {
  if (await isMissing(client.get(customResourceDefinitions, { name: definition.metadata?.name ?? '' }))) {
    await client.create(customResourceDefinitions, definition).catch((error: unknown) => {
      if (!isStatus(error, 'AlreadyExists')) throw error;
    });
    return;
  }
  // a node that has only just come may have a block before this cache knows it
  await release(client, (name) => !isKnown(name) && isMissing(client.get(nodeResource, { name })));
}

/** Serves the blocks of addresses that nodes share, once a node wants them, and takes back those of nodes that are gone. */
export default Controllers.plugin({
  id: 'controller-ip-blocks',
  declares: { loop: 'ip-blocks' },
  config: z.strictObject({}),
  needs: { informers: Informers },
  create({ informers }) {
    const all = informers.of(nodeResource);
    const asks = (node: { readonly metadata?: { readonly annotations?: Readonly<Record<string, string>> } } | undefined) =>
      node?.metadata?.annotations?.[blocksAnnotation] !== undefined;
    let begun = false;
    return {
      name: 'ip-blocks',
      workers: 1,
      watches: [
        watch(all, (node, old) => {
          const { name = '' } = node.metadata ?? {};
          return asks(node) && (old === undefined || !asks(old) || all.get(name) === undefined) ? [name] : [];
        }),
      ],
      async reconcile(name, { client }) {
        if (!begun) {
          await begin(client, (node) => all.get(node) !== undefined);
          begun = true;
        }
        if (all.get(name) === undefined) await release(client, (node) => node === name);
      },
    };
  },
});
