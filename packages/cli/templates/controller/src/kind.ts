import { customResource, type ObjectOfKind } from '@oarlock/controller-kit/custom-resource';
import { conditions } from '@oarlock/controller-kit/fields';
import { z } from 'zod';

/** A message that the controller publishes. The controller installs the CustomResourceDefinition. */
export const __Kind__ = customResource({
  group: 'example.com',
  kind: '__Kind__',
  version: {
    name: 'v1alpha1',
    spec: z.object({
      message: z.string().min(1).max(200).describe('The text to publish.'),
      copies: z.int32().min(1).max(5).default(1).describe('The number of ConfigMaps.'),
    }),
    status: z.object({ copies: z.int32().optional(), conditions: conditions().optional() }),
    printerColumns: [
      { name: 'Ready', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].status' },
      { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
    ],
    scale: { specReplicasPath: '.spec.copies', statusReplicasPath: '.status.copies' },
  },
});
export type __Kind__ = ObjectOfKind<typeof __Kind__>;
