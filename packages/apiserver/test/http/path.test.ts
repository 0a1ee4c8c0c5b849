import { kinds } from '@oarlock/api/kinds';
import { StatusError } from '@oarlock/api/status';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isTrue, parseTarget } from '../../src/http/path.ts';
import { requestInfo, type ResourceInfo } from '../../src/http/request-info.ts';
import { Routes, type Route } from '../../src/http/routes.ts';

const routes = new Routes(kinds.filter(({ servedByDefault }) => servedByDefault));
const info = (method: string, target: string) => requestInfo(method, parseTarget(target));
function find(method: string, target: string): Route | number {
  const found = routes.find(method, info(method, target) as ResourceInfo);
  return found instanceof StatusError ? found.code : (found ?? 404);
}
const rejectionCode = (target: string): number => {
  try {
    parseTarget(target);
    return 0;
  } catch (error) {
    return error instanceof StatusError ? error.code : -1;
  }
};

describe('a request target', () => {
  it.each([
    '/api/v1/namespaces/../nodes',
    '/api/v1/namespaces/%2e%2e/nodes',
    '/api/v1/namespaces/./pods',
    '/api//v1/pods',
    '//api/v1/pods',
    '/api/v1/namespaces/a%2Fb/pods',
    '/api/v1/namespaces/a%00b/pods',
    '/api/v1/namespaces/%252e%252e/pods',
    '/api/v1/namespaces/a%252Fb',
    '/api/v1/%zz',
    '/api/v1/%',
    '/api/v1/%ff',
    '/api/v1/a%0ab',
    'api/v1',
    '*',
    'https://elsewhere/api/v1',
    `/${'a/'.repeat(100)}`,
  ])('%s is rejected', (target) => {
    expect(rejectionCode(target)).toBe(400);
  });

  it('is rejected if it is too long', () => {
    expect(rejectionCode(`/api?x=${'y'.repeat(33_000)}`)).toBe(414);
    expect(rejectionCode(`/api?${'a=1&'.repeat(2000)}`)).toBe(400);
  });

  it('is decoded once', () => {
    expect(parseTarget('/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode').segments).toEqual([
      'apis',
      'rbac.authorization.k8s.io',
      'v1',
      'clusterroles',
      'system:node',
    ]);
    expect(parseTarget('/version/').path).toBe('/version/');
    expect(parseTarget('/%76ersion').path).toBe('/version');
  });

  it('has the first value and all values of a parameter', () => {
    const { query } = parseTarget('/x?command=ls&command=-l&empty=&labelSelector=a%3Db%2Cc+in+(d)&__proto__=1');
    expect(query.first['command']).toBe('ls');
    expect(query.all('command')).toEqual(['ls', '-l']);
    expect(query.first['empty']).toBe('');
    expect(query.first['labelSelector']).toBe('a=b,c in (d)');
    expect(query.first['constructor']).toBeUndefined();
  });

  it('never has a segment with a slash, a percent sign or dots only', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom('/', '.', '%', '2', '5', 'e', 'f', '0', 'a', '\\') }), (text) => {
        try {
          for (const segment of parseTarget(`/${text}`).segments) {
            expect(segment).not.toMatch(/[/%\0]|^\.{0,2}$/);
          }
        } catch (error) {
          expect(error).toBeInstanceOf(StatusError);
        }
      }),
    );
  });

  it('has boolean parameters as in Kubernetes', () => {
    expect(['true', '1', '', 'yes', 'False', 'false', '0', undefined].map(isTrue)).toEqual([
      true,
      true,
      true,
      true,
      false,
      false,
      false,
      false,
    ]);
  });
});

describe('a request', () => {
  it.each([
    ['GET', '/api/v1/pods', 'list', 'pods', '', ''],
    ['GET', '/api/v1/namespaces/a/pods', 'list', 'pods', 'a', ''],
    ['GET', '/api/v1/namespaces/a/pods?watch=1', 'watch', 'pods', 'a', ''],
    ['GET', '/api/v1/namespaces/a/pods?watch=false', 'list', 'pods', 'a', ''],
    ['GET', '/api/v1/namespaces/a/pods/b', 'get', 'pods', 'a', 'b'],
    ['GET', '/api/v1/namespaces/a/pods/b?watch=true', 'get', 'pods', 'a', 'b'],
    ['POST', '/api/v1/namespaces/a/pods', 'create', 'pods', 'a', ''],
    ['PUT', '/apis/apps/v1/namespaces/a/deployments/b', 'update', 'deployments', 'a', 'b'],
    ['PATCH', '/apis/apps/v1/namespaces/a/deployments/b', 'patch', 'deployments', 'a', 'b'],
    ['DELETE', '/api/v1/namespaces/a/pods/b', 'delete', 'pods', 'a', 'b'],
    ['DELETE', '/api/v1/namespaces/a/pods', 'deletecollection', 'pods', 'a', ''],
    ['GET', '/api/v1/namespaces', 'list', 'namespaces', '', ''],
    ['GET', '/api/v1/namespaces/a', 'get', 'namespaces', '', 'a'],
    ['GET', '/api/v1/nodes/n/', 'get', 'nodes', '', 'n'],
  ])('%s %s', (method, target, verb, resource, namespace, name) => {
    expect(find(method, target)).toMatchObject({
      verb,
      resource: { resource },
      namespace,
      name,
      subresource: undefined,
      longRunning: verb === 'watch',
    });
  });

  it.each([
    ['GET', '/api/v1/namespaces/a/status', 'namespaces', 'status'],
    ['PUT', '/api/v1/namespaces/a/finalize', 'namespaces', 'finalize'],
    ['PATCH', '/api/v1/namespaces/a/pods/b/status', 'pods', 'status'],
    ['POST', '/api/v1/namespaces/a/pods/b/eviction', 'pods', 'eviction'],
    ['GET', '/apis/apps/v1/namespaces/a/deployments/b/scale', 'deployments', 'scale'],
  ])('%s %s is a subresource', (method, target, resource, subresource) => {
    expect(find(method, target)).toMatchObject({
      resource: { resource },
      subresource: { name: subresource },
      optionsKind: undefined,
      longRunning: false,
    });
  });

  it('for a stream has the kind of its options', () => {
    expect(find('POST', '/api/v1/namespaces/a/pods/b/exec?command=ls')).toMatchObject({
      verb: 'create',
      optionsKind: 'PodExecOptions',
      longRunning: true,
    });
    expect(find('GET', '/api/v1/namespaces/a/pods/b/log')).toMatchObject({ verb: 'get', optionsKind: 'PodLogOptions', longRunning: true });
    expect(find('PUT', '/api/v1/namespaces/a/pods/b/exec')).toBe(405);
  });

  it('may use the deprecated watch paths', () => {
    expect(find('GET', '/api/v1/watch/pods')).toMatchObject({ verb: 'watch', namespace: '', name: '', watchedName: undefined });
    expect(find('GET', '/api/v1/watch/namespaces/a/pods/b')).toMatchObject({ verb: 'watch', namespace: 'a', name: '', watchedName: 'b' });
    expect(find('POST', '/api/v1/watch/pods')).toBe(405);
  });

  it.each([
    ['GET', '/api/v1/things', 404],
    ['GET', '/api/v1/namespaces/a/nodes', 404],
    ['GET', '/api/v1/pods/b', 404],
    ['POST', '/api/v1/pods', 405],
    ['PUT', '/api/v1/namespaces/a/pods', 405],
    ['POST', '/api/v1/namespaces/a/pods/b', 405],
    ['DELETE', '/api/v1/namespaces', 405],
    ['GET', '/api/v1/namespaces/a/pods/b/nothing', 404],
    ['GET', '/api/v1/namespaces/a/pods/b/status/more', 404],
    ['HEAD', '/api/v1/namespaces/a/pods/b', 405],
    ['OPTIONS', '/api/v1/nodes', 405],
    ['DELETE', '/api/v1/pods', 405],
    ['GET', '/api/v1/namespaces/a/bindings', 405],
  ])('%s %s has the code %i', (method, target, code) => {
    expect(find(method, target)).toBe(code);
  });

  it('for a path is not one for a resource', () => {
    expect(info('GET', '/api/v1')).toEqual({ kind: 'path', verb: 'get', path: '/api/v1' });
    expect(info('GET', '/apis/apps/v1')).toMatchObject({ kind: 'path' });
    expect(info('POST', '/oarlock/v1/join')).toEqual({ kind: 'path', verb: 'post', path: '/oarlock/v1/join' });
    expect(info('GET', '/api/v1/namespaces/a')).toMatchObject({ namespace: 'a', name: 'a' });
  });
});
