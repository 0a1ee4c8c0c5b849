import type { EndpointSlice } from '@oarlock/api/types/discovery-v1';

/** Index of EndpointSlices by the key of their Service. */
export const endpointSlicesByService = 'service';

export const serviceOfSlice = (slice: EndpointSlice): string =>
  `${slice.metadata?.namespace}/${slice.metadata?.labels?.['kubernetes.io/service-name'] ?? ''}`;

export const endpointSliceIndexKeys = (slice: EndpointSlice): readonly string[] => [serviceOfSlice(slice)];
