import { resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import type { Binding } from '@oarlock/api/types/core-v1';
import { Client } from '@oarlock/spi/client';
import { errorStatus, Scheduling, success, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { z } from 'zod';

const bindings = resource<Binding>('', 'v1', 'pods', 'Binding', true);

/** The plugin DefaultBinder: binds a pod by creating its Binding. */
export const defaultBinder = Scheduling.plugin({
  id: 'scheduling-default-binder',
  config: z.strictObject({}),
  needs: { client: Client },
  create: ({ client }): SchedulingPlugin => ({
    name: 'DefaultBinder',
    async bind(_state, { pod }, node, { spanContext, signal }) {
      const name = { namespace: pod.metadata?.namespace ?? '', name: pod.metadata?.name ?? '' };
      const binding: Binding = {
        apiVersion: 'v1',
        kind: 'Binding',
        metadata: { ...name, ...(pod.metadata?.uid !== undefined && { uid: pod.metadata.uid }) },
        target: { kind: 'Node', name: node },
      };
      try {
        await client.withSpanContext(spanContext).create(bindings, binding, { subresource: 'binding', name, signal });
        return success;
      } catch (error) {
        if (isStatus(error)) return errorStatus(error.message);
        throw error;
      }
    },
  }),
});
