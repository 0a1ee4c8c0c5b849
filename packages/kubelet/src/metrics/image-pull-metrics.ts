import { Histogram, type Registry } from 'prom-client';

/** Upstream's buckets of the pull duration, from a second to an hour. Seconds. */
const buckets = [1, 5, 10, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600];
const [mebi, gibi] = [1024 ** 2, 1024 ** 3];
/** The label of each size, by the size that the image exceeds. Largest first. */
const sizes: readonly (readonly [above: number, label: string])[] = [
  [100 * gibi, 'GT100GB'],
  [60 * gibi, '60GB-100GB'],
  [40 * gibi, '40GB-60GB'],
  [30 * gibi, '30GB-40GB'],
  [20 * gibi, '20GB-30GB'],
  [10 * gibi, '10GB-20GB'],
  [5 * gibi, '5GB-10GB'],
  [gibi, '1GB-5GB'],
  [500 * mebi, '500MB-1GB'],
  [100 * mebi, '100MB-500MB'],
  [10 * mebi, '10MB-100MB'],
  [0, '0-10MB'],
];

/** The metrics of image pulls that succeeded. */
export class ImagePullMetrics {
  readonly #duration: Histogram<'image_size_in_bytes'>;

  constructor(registers: Registry[]) {
    this.#duration = new Histogram({
      name: 'kubelet_image_pull_duration_seconds',
      help: 'Duration in seconds to pull an image.',
      registers,
      buckets,
      labelNames: ['image_size_in_bytes'],
    });
  }

  /** Observes a pull. `bytes` is the size of the image; 0 if it is unknown. */
  pulled(seconds: number, bytes: number): void {
    const label = sizes.find(([above]) => bytes > above)?.[1] ?? 'N/A';
    this.#duration.observe({ image_size_in_bytes: label }, seconds);
  }
}
