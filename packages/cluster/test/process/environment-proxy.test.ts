import { expect, it } from 'vitest';
import { environmentProxy } from '../../src/process/environment-proxy.ts';

it('takes variables in upper and lower case, and ignores empty ones', () => {
  expect(environmentProxy({ HTTP_PROXY: 'http://a:1', http_proxy: 'http://b:1', https_proxy: 'c:1', NO_PROXY: '' })).toEqual({
    http: 'http://a:1',
    https: 'c:1',
  });
  expect(environmentProxy({ no_proxy: 'example.com' })).toEqual({ noProxy: 'example.com' });
});
