/** The prefix of all keys of the API server. */
export const storageRoot = '/registry/';
