import { isApiError, type ApiClient } from './client.ts';

/** What the API server offers beyond the API of Kubernetes. */
export interface ServerFeatures {
  /** True for Oarlock, which serves traces, its composition, and the verdicts of its scheduler and authorizers. */
  readonly isOarlock: boolean;
}

/** Returns the features of a server by the build of its version, such as `v1.36.0+oarlock.0.1.0`. */
export const featuresOf = (gitVersion: string): ServerFeatures => ({ isOarlock: /\+oarlock\b/.test(gitVersion) });

/** Reads the version of the server. A server that does not show its version to the user has no features. */
export async function readFeatures(client: ApiClient): Promise<ServerFeatures> {
  try {
    const { gitVersion = '' } = await client.json<{ readonly gitVersion?: string }>('/version');
    return featuresOf(gitVersion);
  } catch (error) {
    if (isApiError(error, 403, 404)) return featuresOf('');
    throw error;
  }
}

/** Returns the views, tabs or links that a server has content for. */
export const offeredBy = <T extends { readonly onlyOarlock?: boolean }>({ isOarlock }: ServerFeatures, all: readonly T[]): readonly T[] =>
  isOarlock ? all : all.filter(({ onlyOarlock }) => onlyOarlock !== true);
