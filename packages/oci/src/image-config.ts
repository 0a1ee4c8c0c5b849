/** The part of an image's config that describes how to run it (image-spec, config.md). Absent fields are empty. */
export interface ImageConfig {
  readonly os: string;
  readonly architecture: string;
  readonly variant?: string;
  readonly entrypoint: readonly string[];
  readonly cmd: readonly string[];
  /** `NAME=value`, in the order of the image. */
  readonly env: readonly string[];
  /** `user`, `uid`, `user:group`, `uid:gid` and mixtures; '' is root. Names are resolved with the files of the image. */
  readonly user: string;
  /** Absolute path; '' is `/`. */
  readonly workingDir: string;
  /** `port/protocol`. */
  readonly exposedPorts: readonly string[];
  readonly volumes: readonly string[];
  /** Signal name or number such as `SIGTERM`; '' is SIGTERM. */
  readonly stopSignal: string;
  readonly labels: Readonly<Record<string, string>>;
  /** The digests of the uncompressed layers, the lowest first. */
  readonly diffIds: readonly string[];
}
