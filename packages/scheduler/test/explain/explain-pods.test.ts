import { ParseError } from '@oarlock/api/values/parse-error';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { node, pod, testScheduler } from '../support/test-scheduler.ts';

const asking = (cpu: string) => ({ containers: [{ name: 'c', image: 'a:1', resources: { requests: { cpu } } }] });
const tainted = { taints: [{ key: 'dedicated', value: 'db', effect: 'NoSchedule' as const }] };

describe('an explanation', () => {
  let w: ReturnType<typeof testScheduler>;
  beforeEach(async () => {
    w = testScheduler();
    w.seedNodes(node('a'), node('b', {}, { spec: tainted }));
    await w.start();
    await w.submit(pod('running', asking('3')));
  });
  afterEach(() => w.stop());
  const verdicts = (...[of, changes]: Parameters<typeof w.scheduler.explain>) =>
    Object.fromEntries(
      (w.scheduler.explain(of, changes)[0]?.nodes ?? []).map(({ node: name, rejectedBy = 'feasible' }) => [name, rejectedBy]),
    );
  const asItIs = { a: 'NodeResourcesFit', b: 'TaintToleration' };

  it('uses changed, added and removed nodes, which have no effect on the next one', () => {
    const waiting = [pod('waiting', asking('2'))];
    expect(verdicts(waiting)).toEqual(asItIs);
    expect(verdicts(waiting, { nodes: [node('b')] })).toEqual({ a: 'NodeResourcesFit', b: 'feasible' });
    expect(verdicts(waiting, { nodes: [node('a', {}, { cpu: '8' })] })).toEqual({ a: 'feasible', b: 'TaintToleration' });
    expect(verdicts(waiting, { nodes: [node('new')] })).toEqual({ ...asItIs, new: 'feasible' });
    expect(verdicts(waiting, { removedNodes: ['b', 'none'] })).toEqual({ a: 'NodeResourcesFit' });
    expect(w.scheduler.explain(waiting, { removedNodes: ['a', 'b'] })[0]).toMatchObject({ nodes: [], message: expect.any(String) });
    expect(verdicts(waiting)).toEqual(asItIs);
  });

  it('leaves the nodes as they were after a malformed quantity', () => {
    expect(() => verdicts([pod('waiting', asking('2'))], { removedNodes: ['b'], nodes: [node('a', {}, { cpu: 'many' })] })).toThrow(
      ParseError,
    );
    expect(verdicts([pod('waiting', asking('2'))])).toEqual(asItIs);
    expect(verdicts([pod('small', asking('1'))])).toEqual({ a: 'feasible', b: 'TaintToleration' });
  });

  it('of a changed copy of a pod on a node does not count the pod itself, which stays on its node', () => {
    const free = w.scheduler.explain([pod('small', asking('2'))]);
    expect(verdicts([pod('running', asking('4'))])).toEqual({ a: 'feasible', b: 'TaintToleration' });
    expect(w.scheduler.explain([pod('small', asking('2'))])).toEqual(free);
  });
});
