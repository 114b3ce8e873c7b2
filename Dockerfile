# docker build --tag naysay .
# docker run --rm --volume "$PWD:/data:ro" naysay check people.csv --rule 'zip -> city' --engine local
#
# With Spark and Java: docker build --target spark --tag naysay:spark .

FROM python:3.12-slim-bookworm AS build
COPY . /source
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:3.12-slim-bookworm AS local
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir /wheels/naysay-*.whl && useradd --create-home naysay
COPY examples/data /examples
USER naysay
# Compile the kernels here, not in every container. Exit code 1: rules are broken, as they should be.
RUN naysay check /examples/clinics.csv --rules /examples/clinics.yaml --engine local --quiet || [ $? -eq 1 ]
WORKDIR /data
ENTRYPOINT ["naysay"]

FROM local AS spark
USER root
RUN apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/* \
 && pip install --no-cache-dir "$(echo /wheels/naysay-*.whl)[spark]"
USER naysay

# What `docker build .` makes.
FROM local
