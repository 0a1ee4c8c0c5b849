import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { KubeObject } from '@oarlock/api/object';
import { pod, rejectionOf, TestServer } from '../../../support/pipeline-fixture.ts';

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start();
});
afterEach(() => server.stop());

const binding = (name: string, node: string, more: KubeObject['metadata'] = {}): KubeObject => ({
  kind: 'Binding',
  apiVersion: 'v1',
  metadata: { name, ...more },
  ...{ target: { kind: 'Node', name: node } },
});
const bind = (name: string, node: string, more?: KubeObject['metadata']) =>
  server.create('pods', binding(name, node, more), { subresource: 'binding', name });

describe('binding', () => {
  it('sets the node and the PodScheduled condition', async () => {
    await server.create('pods', pod('a'));
    expect(await bind('a', 'n1', { annotations: { note: 'x' } })).toMatchObject({ kind: 'Status', status: 'Success' });
    expect(await server.get('pods', 'a')).toMatchObject({
      metadata: { annotations: { note: 'x' }, generation: 1 },
      spec: { nodeName: 'n1' },
      status: { conditions: [{ type: 'PodScheduled', status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z' }] },
    });
  });

  it('is accepted once, for unscheduled pods', async () => {
    await server.create('pods', pod('a'));
    await bind('a', 'n1');
    expect((await rejectionOf(bind('a', 'n2'))).status).toMatchObject({
      code: 409,
      message: 'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1"',
    });
    await server.create('pods', pod('gated', { schedulingGates: [{ name: 'example.com/wait' }] }));
    expect((await rejectionOf(bind('gated', 'n1'))).message).toContain('pod gated has non-empty .spec.schedulingGates');
    await server.create('pods', pod('going', {}, { finalizers: ['example.com/hold'] }));
    await server.remove('pods', 'going');
    expect((await rejectionOf(bind('going', 'n1'))).message).toContain('pod going is being deleted, cannot be assigned to a host');
    expect((await rejectionOf(bind('nobody', 'n1'))).status).toMatchObject({ code: 404, message: 'pods "nobody" not found' });
  });

  it('checks the identity of the pod', async () => {
    const created = await server.create('pods', pod('a'));
    expect((await rejectionOf(bind('a', 'n1', { uid: 'other' }))).code).toBe(409);
    expect((await rejectionOf(server.create('pods', binding('b', 'n1'), { subresource: 'binding', name: 'a' }))).message).toBe(
      'name in URL does not match name in Binding object',
    );
    expect((await rejectionOf(bind('a', ''))).message).toBe('target.name: Required value');
    expect(
      (
        await rejectionOf(
          server.create(
            'pods',
            { ...binding('a', 'n1'), ...{ target: { kind: 'Pod', name: 'x' } } },
            { subresource: 'binding', name: 'a' },
          ),
        )
      ).message,
    ).toBe('target.kind: Unsupported value: "Pod": supported values: "<empty>", "Node"');
    await bind('a', 'n1', created.metadata?.uid === undefined ? {} : { uid: created.metadata.uid });
  });

  it('is served as bindings, too, and does not write in a dry run', async () => {
    await server.create('pods', pod('a'));
    await server.create('pods', binding('a', 'n1'), { subresource: 'binding', name: 'a', query: { dryRun: 'All' } });
    expect(await server.get('pods', 'a')).not.toHaveProperty('spec.nodeName');
    await server.create('bindings', binding('a', 'n1'));
    expect(await server.get('pods', 'a')).toMatchObject({ spec: { nodeName: 'n1' } });
  });
});
