import { decodeBody } from '../compare/normalize.ts';
import { resolveRequest, type Answer, type RequestCase, type RunNames } from '../request.ts';
import type { Target } from './target.ts';

/** Sends the steps of a case one after another. */
export async function runCase(target: Target, { steps }: RequestCase, names: RunNames): Promise<readonly Answer[]> {
  const answers: Answer[] = [];
  const bodies: unknown[] = [];
  for (const step of steps) {
    const answer = await target.send(resolveRequest(step, names, bodies));
    answers.push(answer);
    bodies.push(step.method === 'HEAD' ? undefined : decodeBody(answer));
  }
  return answers;
}

/** Creates the namespace of a run and its service account, which pods require. @throws Error if the server rejects them */
export async function prepareNamespace(target: Target, namespace: string): Promise<void> {
  await create(target, '/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
  // the controller of a complete cluster may create the account first
  await create(target, `/api/v1/namespaces/${namespace}/serviceaccounts`, {
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata: { name: 'default' },
  });
}

async function create(target: Target, path: string, body: object): Promise<void> {
  const { status, body: answer } = await target.send({ method: 'POST', path, body });
  if (status !== 201 && status !== 409)
    throw new Error(`${target.server} answered POST ${path} with ${status}: ${answer.toString('utf8')}`);
}

/** Deletes the namespace of a run with everything in it. */
export async function removeNamespace(target: Target, namespace: string): Promise<void> {
  await target.send({ method: 'DELETE', path: `/api/v1/namespaces/${namespace}` });
}

/** Runs `work` for each element, at most `limit` at a time. Stops to take elements when `isOver` returns true. */
export async function forEachOf<T>(
  elements: Iterable<T>,
  { limit, isOver }: { readonly limit: number; readonly isOver: () => boolean },
  work: (element: T) => Promise<void>,
): Promise<void> {
  const iterator = elements[Symbol.iterator]();
  const worker = async () => {
    for (let next = iterator.next(); next.done !== true && !isOver(); next = iterator.next()) await work(next.value);
  };
  await Promise.all(Array.from({ length: limit }, worker));
}
