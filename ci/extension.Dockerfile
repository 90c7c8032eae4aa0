# An extension image for CloudNativePG (PostgreSQL 18 and later): one extension, from its Debian package.
# The build context is the folder of packages that "make deb ARGS=sid" leaves:
#
#   docker build -f ci/extension.Dockerfile -t light_explain --build-arg EXTENSION=light_explain \
#       --build-arg PACKAGE=postgresql-18-light-explain --build-arg PG_MAJOR=18 --build-arg VERSION=... build/packages/deb-sid
#
# ci/package.sh image runs these steps without a container tool, and uses the result.
ARG BASE=debian:sid
FROM ${BASE} AS build
ARG PACKAGE
COPY ${PACKAGE}_*.deb /package/
RUN dpkg -x /package/*.deb /unpacked

FROM scratch
ARG EXTENSION
ARG PACKAGE
ARG PG_MAJOR
ARG VERSION
LABEL org.opencontainers.image.title="${EXTENSION}"
LABEL org.opencontainers.image.description="The extension ${EXTENSION} of pg_lean for PostgreSQL ${PG_MAJOR}"
LABEL org.opencontainers.image.version="${VERSION}"
LABEL org.opencontainers.image.licenses="PostgreSQL"
COPY --from=build /unpacked/usr/share/doc/${PACKAGE}/copyright /licenses/${PACKAGE}/
COPY --from=build /unpacked/usr/lib/postgresql/${PG_MAJOR}/lib/${EXTENSION}.so /lib/
COPY --from=build /unpacked/usr/share/postgresql/${PG_MAJOR}/extension/${EXTENSION}* /share/extension/
USER 65532:65532
