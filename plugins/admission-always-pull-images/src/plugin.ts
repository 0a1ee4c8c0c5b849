import type { Container, EphemeralContainer, Pod, Volume } from '@oarlock/api/types/core-v1';
import { Admission, allow, deny } from '@oarlock/spi/admission';
import { z } from 'zod';

const always = 'Always';
type Spec = NonNullable<Pod['spec']>;

const imagesOf = ({ spec }: Pod): ReadonlySet<string> =>
  new Set(
    [
      ...[...(spec?.containers ?? []), ...(spec?.initContainers ?? []), ...(spec?.ephemeralContainers ?? [])].map(({ image }) => image),
      ...(spec?.volumes ?? []).map(({ image }) => image?.reference),
    ].filter((image) => image !== undefined),
  );

function withAlwaysPull<T extends Container | EphemeralContainer>(list: readonly T[] | undefined): readonly T[] | undefined {
  return list?.every(({ imagePullPolicy }) => imagePullPolicy === always) === false
    ? list.map((each) => (each.imagePullPolicy === always ? each : { ...each, imagePullPolicy: always }))
    : list;
}
const withAlwaysPulledVolume = (volume: Volume): boolean => volume.image === undefined || volume.image.pullPolicy === always;
const imagesChanged = (next: Pod, old: Pod | undefined): boolean => {
  const before = old && imagesOf(old);
  return before === undefined || [...imagesOf(next)].some((image) => !before.has(image));
};

/** Sets imagePullPolicy to Always (AlwaysPullImages), so that pods need their own credentials for private images cached on a node. */
export default Admission.plugin({
  id: 'admission-always-pull-images',
  config: z.strictObject({}),
  create: () => ({
    matches: [{ resources: ['pods', 'pods/ephemeralcontainers'], operations: ['CREATE', 'UPDATE'] }],
    mutate({ object, old }) {
      if (object === undefined) return allow;
      const pod: Pod = object;
      const { spec } = pod;
      if (spec === undefined || !imagesChanged(pod, old)) return object;
      const containers = withAlwaysPull(spec.containers) ?? [];
      const initContainers = withAlwaysPull(spec.initContainers);
      const ephemeralContainers = withAlwaysPull(spec.ephemeralContainers);
      const volumes =
        spec.volumes?.every(withAlwaysPulledVolume) === false
          ? spec.volumes.map((volume) =>
              withAlwaysPulledVolume(volume) ? volume : { ...volume, image: { ...volume.image, pullPolicy: always } },
            )
          : spec.volumes;
      if (
        containers === spec.containers &&
        initContainers === spec.initContainers &&
        ephemeralContainers === spec.ephemeralContainers &&
        volumes === spec.volumes
      )
        return object;
      const next: Spec = {
        ...spec,
        containers,
        ...(initContainers && { initContainers }),
        ...(ephemeralContainers && { ephemeralContainers }),
        ...(volumes && { volumes }),
      };
      return { ...pod, spec: next };
    },
    validate({ object, old }) {
      const pod: Pod = object ?? {};
      if (!imagesChanged(pod, old)) return allow;
      for (const field of ['initContainers', 'containers', 'ephemeralContainers'] as const) {
        const at = pod.spec?.[field]?.findIndex(({ imagePullPolicy }) => imagePullPolicy !== always) ?? -1;
        if (at >= 0)
          return deny(
            `spec.${field}[${at}].imagePullPolicy: Unsupported value: ${JSON.stringify(pod.spec?.[field]?.[at]?.imagePullPolicy ?? '')}: supported values: "Always"`,
          );
      }
      return allow;
    },
  }),
});
